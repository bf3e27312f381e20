import { type IncomingMessage, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { pipeline, type Readable, type Transform } from 'node:stream';
import { constants, createBrotliDecompress, createUnzip } from 'node:zlib';
import type { BodyReader, ProviderFetch, ProviderResponse } from '../adapters/http/transport.ts';
import { codeOf } from '../protocol/error.ts';

/** As in `fetch`, a compressed body may be empty or end without its checksum. */
const unzip = () => createUnzip({ finishFlush: constants.Z_SYNC_FLUSH });

const DECODERS: ReadonlyMap<string, () => Transform> = new Map([
  ['gzip', unzip],
  ['deflate', unzip],
  ['br', () => createBrotliDecompress({ finishFlush: constants.BROTLI_OPERATION_FLUSH })],
]);

/** What `fetch` sends, but for `deflate`: some servers send it without the header that tells what it is. */
const HEADERS = { accept: '*/*', 'accept-encoding': 'gzip, br', 'user-agent': 'node' };

/** Whose responses have no body, whatever the server sends. */
const BODILESS: readonly number[] = [204, 304];

/**
 * The part of `fetch` that adapters use, over Node's own HTTP client and streams, at a third of its cost. Connections
 * and proxies (`NODE_USE_ENV_PROXY=1`) are those of Node's global agents. Lost connections have the errors of `fetch`, by
 * which adapters know them.
 */
export const providerFetch: ProviderFetch = (address, { method, headers, body, signal }) =>
  new Promise((resolve, reject) => {
    const bytes = Buffer.byteLength(body);
    const url = new URL(address);
    const request = url.protocol === 'https:' ? requestHttps : requestHttp;
    const options = { method, headers: { ...HEADERS, ...headers, 'content-length': bytes }, signal };
    const send = (mayRepeat: boolean) => {
      const sent = request(url, options);
      let cause: Error | undefined;
      let isAnswered = false;
      sent.on('error', error => {
        cause = error;
      });
      sent.on('response', incoming => {
        isAnswered = true;
        resolve(responseOf(incoming));
      });
      // Also without an error, if the server switches to another protocol.
      sent.on('close', () => {
        // The server has closed a connection that was kept open, most likely before it read the request.
        const isStale = sent.reusedSocket && codeOf(cause) === 'ECONNRESET';
        if (mayRepeat && isStale && !isAnswered) return send(false);
        reject(new TypeError(cause ? 'fetch failed' : CLOSED, { cause }));
      });
      // Node writes a long text four times as fast in this encoding, which for ASCII is the same.
      sent.end(body, bytes === body.length ? 'latin1' : 'utf8');
    };
    send(true);
  });

const CLOSED = 'fetch failed: the connection closed before an answer';

function responseOf(incoming: IncomingMessage): ProviderResponse {
  const { statusCode: status = 0, headers } = incoming;
  const hasBody = !BODILESS.includes(status);
  if (!hasBody) incoming.resume();
  return {
    status,
    redirected: false,
    type: 'basic',
    url: '',
    headers: { get: name => headerIn(headers, name.toLowerCase()) },
    body: hasBody ? new Body(decoded(incoming)) : null,
  };
}

function headerIn(headers: IncomingMessage['headers'], name: string): string | null {
  const value = headers[name] ?? null;
  return Array.isArray(value) ? value.join(', ') : value;
}

function decoded(incoming: IncomingMessage): Readable {
  const decoder = DECODERS.get(incoming.headers['content-encoding']?.toLowerCase() ?? '')?.();
  // The reader of the decoder gets the errors of both.
  return decoder === undefined ? incoming : pipeline(incoming, decoder, () => {});
}

/** A body with its only reader, at whose pace it is read. */
class Body implements BodyReader {
  readonly #source: Readable;
  #error: Error | undefined;
  #wake = () => {};

  constructor(source: Readable) {
    this.#source = source;
    source.on('error', error => {
      this.#error = new TypeError('terminated', { cause: error });
      this.#wake();
    });
    for (const event of ['readable', 'end', 'close']) source.on(event, () => this.#wake());
  }

  getReader(): BodyReader {
    return this;
  }

  async read(): Promise<{ done: boolean; value?: Uint8Array }> {
    for (;;) {
      if (this.#error !== undefined) throw this.#error;
      const value: Uint8Array | null = this.#source.read();
      if (value !== null) return { done: false, value };
      if (this.#source.readableEnded) return { done: true };
      if (this.#source.destroyed) throw new Error('The connection closed before the end of the body.');
      await new Promise<void>(resolve => {
        this.#wake = resolve;
      });
    }
  }

  async cancel(): Promise<void> {
    this.#source.destroy();
  }
}
