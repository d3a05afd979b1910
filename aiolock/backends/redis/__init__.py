"""Locks on a Redis server."""

from .backend import RedisBackend as RedisBackend
from .clients import Client as Client
from .clients import ClusterClient as ClusterClient
from .clients import is_cluster as is_cluster
from .connection import Link as Link
from .error_reply import ErrorReply as ErrorReply
from .failures import refused as refused
from .failures import unconnected as unconnected
from .failures import without_frames as without_frames
from .refusals import Elsewhere as Elsewhere
from .replicas import Replicas as Replicas
from .requests import Request as Request
from .seeds import Address as Address
from .seeds import Seeds as Seeds
