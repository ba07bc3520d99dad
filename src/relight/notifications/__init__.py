"""Messages to a person about sessions that need one: to ntfy or to a webhook."""
