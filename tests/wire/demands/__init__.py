"""What each provider's API demands of a request, written from its reference and not from our
adapters. The model server holds every request against it and refuses, as the provider would."""
