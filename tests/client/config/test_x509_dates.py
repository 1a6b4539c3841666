"""The end of a certificate's validity is read without `cryptography`."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from steersman.client.config.x509_dates import not_after

KEY = ec.generate_private_key(ec.SECP256R1())


def certificate(end: datetime, *, serial: int = 7, names: int = 1) -> bytes:
    name = x509.Name([x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, f"group-{n}" * 6) for n in range(names)])
    builder = (
        x509.CertificateBuilder(name, name, KEY.public_key(), serial)
        .not_valid_before(datetime(1960, 1, 1, tzinfo=UTC))
        .not_valid_after(end)
    )
    return builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


@given(
    st.datetimes(datetime.fromisoformat("1960-01-02"), datetime.fromisoformat("9999-12-31"), timezones=st.just(UTC)),
    st.integers(1, 2**150),
    st.integers(1, 30),
)
def test_the_date_is_that_of_the_library(end: datetime, serial: int, names: int):
    der = certificate(end, serial=serial, names=names)
    assert not_after(der) == x509.load_der_x509_certificate(der).not_valid_after_utc == end.replace(microsecond=0)


@pytest.mark.parametrize("year", [1969, 1970, 1999, 2000, 2049, 2050])
def test_years_of_two_and_of_four_digits_are_read(year: int):
    assert not_after(certificate(datetime(year, 7, 1, tzinfo=UTC))).year == year


@given(st.binary(max_size=60))
def test_other_bytes_are_refused(data: bytes):
    with pytest.raises(ValueError):  # noqa: PT011 - any message
        not_after(data)


@pytest.mark.parametrize("length", range(0, 120, 7))
def test_a_certificate_that_ends_early_is_refused(length: int):
    with pytest.raises(ValueError, match="ends early"):
        not_after(certificate(datetime(2030, 1, 1, tzinfo=UTC))[:length])
