from .base import Place as Place
from .cluster import AnyCluster as AnyCluster
from .database import Database as Database
from .database import DatabaseOfMySQL as DatabaseOfMySQL
from .etcd import Etcd as Etcd
from .file import File as File
from .quorum import Quorum as Quorum
from .redisson import OnRedisson as OnRedisson
from .sentinel import Watched as Watched
from .served import MariaDB as MariaDB
from .served import MySQL as MySQL
from .served import Postgres as Postgres
from .server import OneServer as OneServer
from .waiting import NotWhole as NotWhole
from .zookeeper import ZooKeeper as ZooKeeper

Placed = OneServer | AnyCluster | Watched | Quorum | File | Database | Postgres | MariaDB | MySQL | Etcd | ZooKeeper
PLACES: dict[str, type[Placed]] = {
    place.name: place
    for place in (
        *(OneServer, OnRedisson, AnyCluster, Watched, Quorum, File),
        *(Database, DatabaseOfMySQL, Postgres, MariaDB, MySQL, Etcd, ZooKeeper),
    )
}
