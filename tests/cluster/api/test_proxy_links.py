"""Links in pages that pass through the API server's proxy."""

import gzip
import zlib

import pytest

from steersman_cluster.api.connect.proxy_links import MAX_PAGE_BYTES, rewrite_html, rewrite_link, rewrite_response
from steersman_cluster.api.requests.messages import Response

PREFIX = "/api/v1/namespaces/default/pods/web:80/proxy"
HOSTS = {"10.244.0.7:80"}
PAGE = '<!DOCTYPE html>\n<p>é &amp; <A HREF="/a?b=1&amp;c=2">a</A></p>\n'
REWRITTEN = f'<!DOCTYPE html>\n<p>é &amp; <a href="{PREFIX}/a?b=1&amp;c=2">a</A></p>\n'


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("/", f"{PREFIX}/"),
        ("/a/", f"{PREFIX}/a/"),
        ("/a/../b?c#d", f"{PREFIX}/b?c#d"),
        ("a", "a"),
        ("#top", "#top"),
        ("mailto:nobody@example.com", "mailto:nobody@example.com"),
        ("http://10.244.0.7:80/a", f"{PREFIX}/a"),
        ("https://example.com/a", "https://example.com/a"),
        ("//example.com/a", "//example.com/a"),
        (f"{PREFIX}/a", f"{PREFIX}/a"),
        ("http://[", "http://["),
    ],
)
def test_only_links_to_the_servers_own_paths_get_the_prefix(link: str, expected: str):
    assert rewrite_link(link, PREFIX, HOSTS) == expected


def test_a_page_keeps_everything_but_its_links():
    assert rewrite_html(PAGE, PREFIX, HOSTS) == REWRITTEN


def test_links_in_comments_and_scripts_stay_as_they_are():
    page = "<!-- <a href='/a'> --><script>'<a href=\"/b\">'</script><img src=/c />"
    assert rewrite_html(page, PREFIX, HOSTS) == page.replace("<img src=/c />", f'<img src="{PREFIX}/c"/>')


async def test_a_compressed_page_is_rewritten_and_compressed_again():
    headers = (("Content-Encoding", "gzip"),)
    response = Response(200, gzip.compress(PAGE.encode()), "text/html", headers)
    assert gzip.decompress((await rewrite_response(response, PREFIX, HOSTS)).body).decode() == REWRITTEN
    deflated = zlib.compress(PAGE.encode(), wbits=-15)
    response = Response(200, deflated, "text/html; charset=utf-8", (("Content-Encoding", "deflate"),))
    rewritten = await rewrite_response(response, PREFIX, HOSTS)
    assert zlib.decompress(rewritten.body, wbits=-15).decode() == REWRITTEN


@pytest.mark.parametrize(
    "body",
    [b"no gzip", gzip.compress(b" " * (MAX_PAGE_BYTES + 1)), gzip.compress(b"a")[:-9]],
    ids=["no gzip", "too large", "cut off"],
)
async def test_a_page_that_cannot_be_decompressed_passes_as_it_is(body: bytes):
    response = Response(200, body, "text/html", (("Content-Encoding", "gzip"),))
    assert (await rewrite_response(response, PREFIX, HOSTS)).body == body


async def test_a_page_in_another_encoding_keeps_its_bytes():
    response = Response(200, b'\xe9<a href="/a">', "text/html")
    rewritten = await rewrite_response(response, PREFIX, HOSTS)
    assert rewritten.body == b"\xe9" + f'<a href="{PREFIX}/a">'.encode()


async def test_a_page_beyond_the_limit_is_passed_on_unchanged():
    async def chunks():
        yield b'<a href="/a">'
        yield b" " * MAX_PAGE_BYTES
        yield b"end"

    response = await rewrite_response(Response(200, b"", "text/html", stream=chunks()), PREFIX, HOSTS)
    assert response.stream is not None
    text = b"".join([chunk async for chunk in response.stream])
    assert text == b'<a href="/a">' + b" " * MAX_PAGE_BYTES + b"end"


async def test_other_kinds_of_content_are_passed_on_unchanged():
    response = Response(200, b'<a href="/a">', "application/xml")
    assert (await rewrite_response(response, PREFIX, HOSTS)).body == b'<a href="/a">'
