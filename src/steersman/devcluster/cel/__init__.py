"""The Common Expression Language as the API server speaks it: rules of custom resources, match conditions."""
