"""The webhooks of the operator. Importing this package declares them."""
