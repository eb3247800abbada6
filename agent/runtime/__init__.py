"""What an agent runs on: its worker thread, the queues and subscribers around it, handles on its runs."""
