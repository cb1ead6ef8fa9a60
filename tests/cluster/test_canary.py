"""Canaries that serve: what is promoted and what is rolled back, by the figures of the pods' own pages."""

import json
from collections.abc import Mapping

import pytest

from tests.support.cluster.cluster import Cluster
from tests.support.cluster.environment import Object
from tests.support.cluster.operator import Operator
from tests.support.cluster.pages import Served, served
from tests.support.cluster.policies import Followed, follow, policy
from tests.support.cluster.traffic import CHAT, STRUCTURED
from tests.support.cluster.workloads import ANNOTATION, bound, container, drafts, workload

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
