"""Operations on stored services: status, health, tool definitions, sharing, forms and import."""
