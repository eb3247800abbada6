"""HTTP requests that stream: connections, a pool, server-sent events, retries, error texts."""
