"""Kubernetes' protobuf encoding of the built-in kinds, for clients that prefer it (client-go, controller-runtime).

Objects are JSON everywhere in the embedded cluster; this package converts request and response bodies by a table of
fields made from the API's Go types. Custom resources have no protobuf form, as on a real server.
"""

from steersman_cluster.protobuf.codec import MEDIA_TYPE, NotProtobufError, decode, encode, frame, supports

__all__ = ["MEDIA_TYPE", "NotProtobufError", "decode", "encode", "frame", "supports"]
