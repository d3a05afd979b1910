"""Locks on a Redis server."""

from .backend import RedisBackend as RedisBackend
from .clients import Client as Client
from .clients import ClusterClient as ClusterClient
from .clients import is_cluster as is_cluster
from .clients import is_sentinel as is_sentinel
from .complaints import Complaints as Complaints
from .connection import Link as Link
from .connection import ServerConnector as ServerConnector
from .connection import pack as pack
from .credentials import Credentials as Credentials
from .error_reply import Desync as Desync
from .error_reply import ErrorReply as ErrorReply
from .failures import PASSING as PASSING
from .failures import Misplaced as Misplaced
from .failures import code_of as code_of
from .failures import refused as refused
from .failures import unconnected as unconnected
from .failures import without_frames as without_frames
from .handshake import Handshake as Handshake
from .refusals import Elsewhere as Elsewhere
from .replicas import Replicas as Replicas
from .seeds import Address as Address
from .seeds import Seeds as Seeds
from .sentinels import Report as Report
from .sentinels import Sentinels as Sentinels
