"""Webhook configurations, admission policies, and the CEL expressions in both."""
