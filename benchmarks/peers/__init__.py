"""The programs that are measured, each as its users would write it."""
