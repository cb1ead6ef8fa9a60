"""Levels that these tests write."""

from specloop_policy.ladder import DISABLED, Drafter, Ladder, Level, Method

DRAFT_NAME = "meta-llama/Llama-3.2-1B-Instruct"
SMALL = Drafter("small", Method.DRAFT_MODEL, DRAFT_NAME)
LOOKUP = Drafter("lookup", Method.NGRAM, lookup_min=2, lookup_max=4)
K5, K3, NGRAM = Level("k5", SMALL, 5), Level("k3", SMALL, 3), Level("ngram", LOOKUP, 4)
LADDER = Ladder((K5, K3, NGRAM, DISABLED))

DRAFT_JSON = f'{{"method": "draft_model", "model": "{DRAFT_NAME}", "num_speculative_tokens": 5}}'
NGRAM_JSON = '{"method":"ngram","num_speculative_tokens":4,"prompt_lookup_max":4,"prompt_lookup_min":2}'
