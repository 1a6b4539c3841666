"""HorizontalPodAutoscalers and their sources of metrics."""
