// Runs a scenario with pi and prints what it cost, one JSON line per repeat: what ../measure.py does for ours.
//
//     node pi.mjs PORT SCENARIO
//
// The packages are found from the folder that this file was copied into: see ../peers.py.

import { Agent } from "@earendil-works/pi-agent-core";
import { streamSimple } from "@earendil-works/pi-ai/api/openai-completions";
import { readFileSync, writeFileSync } from "node:fs";

const [port, scenario] = process.argv.slice(2);
// As in measure.py.
const AGENTS = 100;
const REPEATS = { agents: 1, "bigargs-200k": 2 };

const noop = {
  name: "noop",
  label: "noop",
  description: "Nothing.",
  parameters: { type: "object", properties: { value: { type: "string" } }, required: ["value"] },
  execute: async () => ({ content: [{ type: "text", text: "ok" }], details: {} }),
};

async function converse(script) {
  const model = {
    id: script,
    name: script,
    api: "openai-completions",
    provider: "local",
    baseUrl: `http://127.0.0.1:${port}/v1`,
    reasoning: false,
    input: ["text"],
    cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 },
    contextWindow: 1_000_000,
    maxTokens: 8192,
  };
  const agent = new Agent({
    initialState: { systemPrompt: "You are a test.", model, tools: [noop] },
    streamFn: streamSimple,
    getApiKey: () => "x",
  });
  let deltas = 0;
  let calls = 0;
  agent.subscribe((event) => {
    if (event.type === "message_update") {
      const kind = event.assistantMessageEvent.type;
      if (kind === "text_delta" || kind === "toolcall_delta") deltas += 1;
    } else if (event.type === "tool_execution_end") calls += 1;
  });
  await agent.prompt("go");
  if (agent.state.errorMessage) throw new Error(agent.state.errorMessage);
  return [deltas, calls];
}

async function many() {
  const ended = await Promise.all(Array.from({ length: AGENTS }, () => converse("tools-10")));
  return [0, 1].map((part) => ended.reduce((sum, counts) => sum + counts[part], 0));
}

const peakMegabytes = () => Number(/VmHWM:\s*(\d+)/.exec(readFileSync("/proc/self/status", "utf8"))[1]) / 1024;

await converse("text-20");
await converse("tools-2");
for (let number = 0; number < (REPEATS[scenario] ?? 5); number += 1) {
  writeFileSync("/proc/self/clear_refs", "5");
  const before = peakMegabytes();
  const used = process.cpuUsage();
  const began = performance.now();
  const [deltas, calls] = await (scenario === "agents" ? many() : converse(scenario));
  const wall = (performance.now() - began) / 1000;
  const { user, system } = process.cpuUsage(used);
  const growth_mb = peakMegabytes() - before;
  console.log(JSON.stringify({ cpu: (user + system) / 1e6, wall, deltas, calls, growth_mb }));
}
process.exit(0);
