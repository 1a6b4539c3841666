"""Services, and the Endpoints and EndpointSlices of their traffic."""
