"""RocketMQ's remoting protocol: frames of a JSON header and a body."""

from rocketmq.remoting.frames import Command, FrameError, FrameParser, encode

__all__ = ["Command", "FrameError", "FrameParser", "encode"]
