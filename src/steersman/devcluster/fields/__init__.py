"""Field management: who owns which field, and server-side apply."""
