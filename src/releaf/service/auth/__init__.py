"""Access control: API keys, session cookies, allowed hosts and origins, rate limits."""
