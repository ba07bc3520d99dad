"""Messages to a person about sessions that need one: to ntfy, to a webhook, or to a browser (web push)."""
