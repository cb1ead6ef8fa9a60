"""What is packed into columns comes back without loss, whatever it is."""

import math
from base64 import b85decode
from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specloop_control.columns import ColumnsError, pack, unpack, unpack_times
from specloop_engine.sample import Dialect, Drafting, Sample, Served

WHOLE = st.integers(0, 2**53).map(float)
NUMBERS = st.one_of(st.none(), WHOLE, st.integers(0, 10**9).map(lambda n: n / 1000.0), st.floats(), st.just(-0.0))
DRAFTINGS = st.builds(
    Drafting, NUMBERS, NUMBERS, NUMBERS, st.lists(WHOLE | st.floats(), max_size=3).map(tuple), NUMBERS
)
SAMPLES = st.builds(
    Sample,
    at=st.floats(0.0, 4e9) | st.integers(0, 2 * 10**12).map(lambda n: n / 1000.0),
    dialect=st.none() | st.sampled_from(Dialect),
    process_start=NUMBERS,
    incarnation=st.none() | st.text(max_size=3),
    shows_drafting=st.booleans(),
    drafting=st.none() | DRAFTINGS,
    tokens=st.none() | st.integers(0, 9999),
    generation=st.none() | st.integers(0, 2**40),
    generation_tokens=NUMBERS,
    prompt_tokens=NUMBERS,
    finished_requests=NUMBERS,
    one_token_requests=NUMBERS,
    length_requests=NUMBERS,
    first_tokens=NUMBERS,
    engine_steps=NUMBERS,
    running=NUMBERS,
    waiting=NUMBERS,
    kv_cache_percent=NUMBERS,
    temperatures=st.lists(st.tuples(st.sampled_from([0.0, 0.1, math.inf]), WHOLE | st.floats()), max_size=3).map(tuple),
    served=st.none() | st.builds(Served, **dict.fromkeys((one.name for one in fields(Served)), NUMBERS)),
)


@settings(max_examples=60)
@given(st.lists(SAMPLES, min_size=1, max_size=6))
def test_whatever_samples_hold_comes_back(samples: list[Sample]) -> None:
    """By their words: NaN is not equal to itself, and 0.0 is equal to -0.0."""
    found = unpack(pack(samples))
    assert [repr(one) for one in found] == [repr(one) for one in samples]
    assert unpack_times(pack(samples)) == [one.at for one in samples]


def test_every_field_of_a_sample_and_of_its_parts_is_kept() -> None:
    """One value for each field that no other has, so that a field which is left out or mixed up shows."""
    drafting = Drafting(1.0, 2.0, 3.0, (4.0, 5.0), 6.5)
    served = Served(**{one.name: place + 100.5 for place, one in enumerate(fields(Served))})
    values = {one.name: float(place + 10) for place, one in enumerate(fields(Sample))}
    special = {
        "dialect": Dialect.VLLM_V0,
        "incarnation": "x",
        "shows_drafting": False,
        "drafting": drafting,
        "tokens": 7,
        "generation": 8,
        "temperatures": ((0.5, 9.0), (math.inf, 9.0)),
        "served": served,
    }
    sample = replace(Sample(0.0, None), **{**values, **special})  # type: ignore[arg-type]
    assert unpack(pack([sample])) == [sample]


BEFORE_SERVED = (
    "c$|Gy&2H2%5Ke(|KuEj++Pc?hwONUZa^cboQaM#Z0ux2XnccW`?9_I;LI`Q!ix=TFcmRH!ZM?~j8+`F(z8{arj_Gldd?S|CjRZ^HEK|a@Y-{CXN"
    "(pl$C7Vi1$Vhsgr<9a}N#O3p=dZ0+B+ar>8ncDs%qZrBR)gXUAy{N9y|G1U*vbjD#%N<S2Wt!Kn2FX~g95WNEu6jqzl)UALQ1jpg)Vw|-MAio>)|"
    "iLc~%x-BkP@TC6urgl!bxY7OcbK2p<`|?g(1Jz4eqsOu#irP-|CB=@A-lz}Sh6k0C7crotCy9W+=rhOo@EO8L`6iav{5vth!;<UWg?Z|(}tcm+iR"
    "hJ$iQg<&j@c8M+yvKs(wG<88ke!dHE&k%|`aR@(rS`Tt2jTq<9IDaqy?}ccSc2casi5d#u6qqtQAmP3>+KR59_B8sn12SLW^#>@MhL#wDat(HPc$"
    "TmBNxZa!y6MijH4xV|2IJBW(8KET@5!$#Nc?y~$=&7U``L$#<VhG*wNehBM<LjL`cdwJpC9iNpD&W_9_<K^_Tl4x{=Jv~-98Jnmmzo_(VzCglYS"
    "14l+eZeES<em-Gk=7<|LgFnh#YU1?HcyV3_{_{%zl)"
)
"""A block, in base 85, that was written when samples had no `served`."""


def test_what_was_recorded_before_service_was_counted_is_still_read() -> None:
    drafting = Drafting(10.0, 30.0, 12.0, (6.0, 4.0, 2.0))
    one = Sample(1.7e9, Dialect.VLLM_V1, 1.69e9, drafting=drafting, tokens=3, generation_tokens=23.0, running=2.0)
    assert unpack(b85decode(BEFORE_SERVED)) == [
        replace(one, finished_requests=1.0, temperatures=((0.6, 1.0), (math.inf, 1.0))),
        Sample(1.7e9 + 15.0, Dialect.VLLM_V1, 1.69e9, tokens=0, generation_tokens=40.5),
    ]


def test_counters_of_an_engine_take_less_than_a_hundred_bytes_a_sample() -> None:
    """Sixteen counters that move by up to a thousand: two bytes each are 32, and times and gauges a dozen more."""
    samples = []
    for step in range(960):
        moved = [float(step * (place + 3) * 37 + step * step % (place + 5)) for place in range(16)]
        drafting = Drafting(moved[0], moved[1], moved[2], tuple(moved[3:8]))
        counts = {one.name: moved[8 + place] for place, one in enumerate(fields(Sample)[8:15])}
        at = 1.7e9 + 15 * step + step % 7 / 1000.0
        samples.append(
            Sample(at, Dialect.VLLM_V1, 1.69e9, drafting=drafting, tokens=5, running=step % 9.0, **counts)  # type: ignore[arg-type]
        )
    block = pack(samples)
    assert unpack(block) == samples
    assert len(block) < 100 * len(samples)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.99])
def test_a_block_that_is_cut_short_is_refused(share: float) -> None:
    block = pack([Sample(1.0, Dialect.VLLM_V1), Sample(2.0, Dialect.VLLM_V1)])
    with pytest.raises(ColumnsError):
        unpack(block[: int(share * len(block))])


@given(st.integers(0, 10**6), st.integers(1, 255))
def test_a_block_with_any_wrong_byte_is_refused_or_the_same(place: int, change: int) -> None:
    """zlib's checksum sees to that; some bits of its head mean nothing."""
    samples = [Sample(1.0, Dialect.VLLM_V1, tokens=5), Sample(2.0, Dialect.VLLM_V1, tokens=5)]
    block = bytearray(pack(samples))
    block[place % len(block)] ^= change
    try:
        found = unpack(bytes(block))
    except ColumnsError:
        return
    assert found == samples
