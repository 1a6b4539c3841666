"""The state machine alone: every decision of the reflector, with no clock, no I/O and no objects."""

import pytest

from steersman.cache.reflector import (
    Begin,
    Clear,
    Commit,
    Continue,
    Discard,
    Ended,
    Failed,
    Failure,
    ForgetWatchList,
    InitialEnd,
    OpenStream,
    PageRead,
    Phase,
    Progressed,
    ReadPage,
    Report,
    Sleep,
    Slept,
    Start,
    State,
    Stop,
    backoff,
    step,
)


def after(state, *events):
    effects = ()
    for event in events:
        state, effects = step(state, event)
    return state, effects


def watching(version="100", **changes):
    state, _ = after(State(**changes), Start(), InitialEnd(version, 0.0))
    return state


def failed(failure, at=10.0, retry_after=0.0):
    return Failed(failure, "why", at, retry_after)


def delay(effects):
    assert isinstance(effects[-1], Sleep), effects
    return effects[-1].seconds


def kinds(effects):
    return [type(e) for e in effects if not isinstance(e, Report)]


def test_it_starts_with_the_initial_events_of_the_most_recent_state():
    """W2: WatchList where the server has it; collect first, then swap in one step."""
    state, effects = after(State(), Start())
    assert effects == (Begin(), OpenStream("", initial=True))
    state, effects = after(state, Progressed("", 1.0), InitialEnd("100", 2.0))
    assert effects == (Commit("100"), Continue())
    assert (state.phase, state.version, state.synced) == (Phase.WATCHING, "100", True)


@pytest.mark.parametrize("lists", [True, False])
def test_a_fresh_list_never_asks_for_version_zero(lists):
    """W1: after a 410 the most recent state is asked for, never resourceVersion 0."""
    state = (
        watching(watch_list=not lists)
        if not lists
        else after(State(watch_list=False), Start(), PageRead("100", "", 0.0))[0]
    )
    _, effects = step(state, failed(Failure.EXPIRED))
    assert effects[-1] == (ReadPage(500, "") if lists else OpenStream("", initial=True))


@pytest.mark.parametrize("lists", [True, False])
def test_a_list_older_than_what_was_seen_is_refused(lists):
    """W1: a server that lags behind after a fail-over cannot take the store back in time."""
    state = watching("200") if not lists else after(State(watch_list=False), Start(), PageRead("200", "", 0.0))[0]
    state, _ = step(state, failed(Failure.EXPIRED))
    state, effects = step(state, PageRead("150", "", 11.0) if lists else InitialEnd("150", 11.0))
    assert Commit not in kinds(effects)
    assert kinds(effects) == [Discard, Sleep]
    assert state.version == "200"
    state, effects = after(state, Slept(12.0), PageRead("201", "", 12.5) if lists else InitialEnd("201", 12.5))
    assert Commit("201") in effects


def test_a_cluster_restored_from_a_backup_is_believed_in_the_end():
    """W1: five consistent reads in a row with an older version mean a new history, not a lagging server."""
    state, _ = step(watching("200"), failed(Failure.EXPIRED))
    for n in range(5):
        state, effects = step(state, InitialEnd("50", 20.0 + n))
        assert Commit not in kinds(effects)
        state, _ = step(state, Slept(20.5 + n))
    state, effects = step(state, InitialEnd("50", 30.0))
    assert effects[0] == Commit("50")
    assert state.version == "50"


def test_versions_that_are_not_numbers_are_taken_as_they_come():
    """W1: only decimal versions can be compared (KEP-5504)."""
    state, _ = step(watching("abc"), failed(Failure.EXPIRED))
    _, effects = step(state, InitialEnd("abb", 11.0))
    assert Commit("abb") in effects


@pytest.mark.parametrize("failure", [Failure.REFUSED, Failure.FORBIDDEN])
def test_a_refused_watch_list_becomes_a_paged_list_at_once(failure):
    """W2: fall back to paged LIST on any refusal, and remember it."""
    state, _ = step(State(), Start())
    state, effects = step(state, failed(failure))
    assert effects[-1] == ReadPage(500, "")
    assert (ForgetWatchList() in effects) is (failure is Failure.REFUSED), "a missing right says nothing of the server"
    state, effects = after(state, PageRead("5", "token", 1.0))
    assert effects == (ReadPage(500, "token"),)
    state, effects = after(state, PageRead("5", "", 2.0))
    assert effects == (Commit("5"), OpenStream("5"))
    _, effects = step(state, failed(Failure.EXPIRED))
    assert effects[-1] == ReadPage(500, "")


def test_initial_events_that_never_end_become_a_paged_list():
    """W2: a server that ignores sendInitialEvents is found out after the second stream."""
    state, effects = after(State(), Start(), Ended(5.0))
    assert kinds(effects) == [Discard, Sleep]
    state, effects = after(state, Slept(6.0), Ended(9.0))
    assert effects[-1] == ReadPage(500, "")
    assert state.watch_list is False


def test_every_event_and_bookmark_moves_the_position_on():
    """W3: a dropped stream resumes from the last version seen, without a list."""
    state, effects = after(watching("100"), Progressed("104", 5.0), Ended(45.0))
    assert effects == (OpenStream("104"),)
    state, effects = after(state, Progressed("110", 50.0), failed(Failure.UNREACHABLE, 51.0), Slept(52.0))
    assert effects == (OpenStream("110"),)
    assert after(state, Progressed("109", 53.0))[0].version == "110"


@pytest.mark.parametrize("lists", [True, False])
def test_an_expired_position_ends_in_one_fresh_list_and_not_in_a_loop(lists):
    """W4: the first 410 lists at once; another one without progress in between backs off."""
    state = (
        watching(watch_list=not lists)
        if not lists
        else after(State(watch_list=False), Start(), PageRead("100", "", 0.0))[0]
    )
    end = PageRead("101", "", 11.0) if lists else InitialEnd("101", 11.0)
    state, effects = step(state, failed(Failure.EXPIRED))
    assert kinds(effects) == [Discard, Begin, ReadPage if lists else OpenStream]
    state, _ = step(state, end)
    state, effects = step(state, failed(Failure.EXPIRED, 11.1))
    assert kinds(effects) == [Discard, Sleep]
    state, _ = after(state, Slept(12.0), end, Progressed("120", 13.0))
    _, effects = step(state, failed(Failure.EXPIRED, 14.0))
    assert Sleep not in kinds(effects), "progress in between makes it a first time again"


def test_an_expired_continue_token_starts_the_list_afresh():
    """W4: 410 on a continue token."""
    state, _ = after(State(watch_list=False), Start(), PageRead("100", "token", 1.0))
    state, effects = step(state, failed(Failure.EXPIRED))
    assert effects[-3:][-2:] == (Begin(), ReadPage(500, ""))
    assert state.continue_ == ""


def test_failures_double_the_delay_up_to_thirty_seconds():
    """W6: 0.8 s doubling to 30 s."""
    assert [backoff(n) for n in range(7)] == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0]
    assert backoff(10_000) == 30.0
    state, delays = watching(), []
    for n in range(7):
        state, effects = step(state, failed(Failure.UNREACHABLE, 10.0 + n))
        delays.append(delay(effects))
        state, _ = step(state, Slept(10.5 + n))
    assert delays == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0]


def test_two_minutes_of_health_forget_the_failures():
    """W6: the back-off is reset after two minutes of health, and not before."""
    state = watching()
    for n in range(4):
        state, _ = after(state, failed(Failure.UNREACHABLE, 10.0 + n), Slept(10.5 + n))
    early, _ = after(state, Progressed("105", 20.0), Progressed("106", 100.0))
    assert delay(step(early, failed(Failure.UNREACHABLE, 139.0))[1]) == 12.8
    late, _ = after(state, Progressed("105", 20.0), Progressed("106", 100.0))
    assert delay(step(late, failed(Failure.UNREACHABLE, 140.0))[1]) == 0.8


@pytest.mark.parametrize("failure", [Failure.THROTTLED, Failure.UNREACHABLE, Failure.FORBIDDEN])
def test_overload_and_refused_connections_do_not_cause_a_relist(failure):
    """W6: 429 and refused connections back off and go on from the same position."""
    state, effects = step(watching("100"), failed(failure, retry_after=7.0))
    assert delay(effects) == 7.0
    assert Discard not in kinds(effects)
    assert step(state, Slept(18.0))[1] == (OpenStream("100"),)


def test_a_kind_whose_watch_cache_is_not_filled_yet_is_listed_in_pages_at_once():
    """W6: the API server rejects the first watch of a new kind, and lists with a limit come from etcd."""
    state, _ = after(State(), Start())
    state, effects = step(state, failed(Failure.UNINITIALIZED, retry_after=1.0))
    assert effects == (Discard(), Begin(), ReadPage(500, ""))
    state, effects = step(state, PageRead("100", "", 1.0))
    assert effects[-1] == OpenStream("100")
    assert delay(step(state, failed(Failure.UNINITIALIZED, 2.0, retry_after=1.0))[1]) == 1.0


def test_a_failed_page_is_asked_for_again_with_its_token():
    """W6: a page that fails does not start the list anew."""
    state, _ = after(State(watch_list=False), Start(), PageRead("100", "token", 1.0))
    state, effects = step(state, failed(Failure.THROTTLED, retry_after=3.0))
    assert delay(effects) == 3.0
    assert step(state, Slept(5.0))[1] == (ReadPage(500, "token"),)


def test_a_watch_that_ends_at_once_is_a_failure():
    """W6: a server or proxy that ends every watch at once is not hammered."""
    state, effects = after(watching("100"), Ended(1.0))
    assert effects == (OpenStream("100"),), "this stream had brought the initial events"
    state, effects = step(state, Ended(1.2))
    assert delay(effects) == 0.8


def test_a_silent_stream_is_opened_anew():
    """W7: silence after progress reconnects at once; silence from the start backs off."""
    state, effects = after(watching("100"), Progressed("101", 1.0), failed(Failure.SILENT, 60.0))
    assert effects == (OpenStream("101"),)
    _, effects = step(state, failed(Failure.SILENT, 120.0))
    assert delay(effects) == 0.8


def test_malformed_bytes_are_asked_for_once_more_and_then_listed_around():
    """W9: a response that is not JSON does not stop the reflector."""
    state, effects = step(watching("100"), failed(Failure.MALFORMED))
    assert delay(effects) == 0.8
    state, effects = step(state, Slept(11.0))
    assert effects == (OpenStream("100"),)
    state, effects = step(state, failed(Failure.MALFORMED, 12.0))
    assert kinds(effects) == [Discard, Sleep]
    assert step(state, Slept(14.0))[1][-1] == OpenStream("", initial=True)


def test_a_missing_kind_parks_with_one_clear_line():
    """W10: a missing CRD is retried with back-off and said once."""
    state, _ = step(State(), Start())
    reports, delays = [], []
    for n in range(8):
        state, effects = step(state, failed(Failure.MISSING, float(n)))
        assert state.phase is Phase.PARKED
        reports += [e for e in effects if isinstance(e, Report)]
        delays.append(delay(effects))
        state, _ = step(state, Slept(float(n)))
    assert len(reports) == 1
    assert delays[-1] == 30.0
    state, effects = step(state, InitialEnd("100", 200.0))
    assert effects[0] == Commit("100")


def test_a_removed_kind_empties_the_store_after_a_second_look():
    """W10: one 404 may be a server that is only starting; two mean that the kind is gone."""
    state, effects = after(watching("100"), failed(Failure.MISSING))
    assert Clear() not in effects
    state, effects = after(state, Slept(11.0), failed(Failure.MISSING, 12.0))
    assert Clear() in effects
    assert state.phase is Phase.PARKED
    state, effects = after(state, Slept(15.0), failed(Failure.MISSING, 16.0))
    assert Clear() not in effects, "once is enough"


def test_stopping_ends_it_from_anywhere_and_for_good():
    for state in (State(), watching(), after(watching(), failed(Failure.MISSING))[0]):
        state, effects = step(state, Stop())
        assert (state.phase, effects) == (Phase.STOPPED, (Discard(),))
        assert step(state, Slept(5.0)) == (state, ())


def test_an_event_that_cannot_happen_is_a_programming_error():
    with pytest.raises(ValueError, match="cannot take"):
        step(State(), Slept(0.0))
