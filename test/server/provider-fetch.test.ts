import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import { type AddressInfo, createServer as createRawServer } from 'node:net';
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { anthropic } from '../../adapters/anthropic.ts';
import { adapterChecks } from '../../adapters/conformance.ts';
import type { ProviderResponse } from '../../adapters/http/transport.ts';
import { openaiChat } from '../../adapters/openai-chat.ts';
import { providerFetch } from '../../server/provider-fetch.ts';
import { anthropicExchanges } from '../support/adapters/fixtures/anthropic.ts';
import { chatExchanges } from '../support/adapters/fixtures/chat.ts';
import { calling, collect, rejection, request } from '../support/adapters/requests.ts';

const MODEL = { model: 'model-1', fetch: providerFetch };

const adapters = [
  {
    adapter: 'openaiChat',
    checks: adapterChecks({
      open: options => openaiChat({ ...MODEL, ...options }),
      exchanges: chatExchanges(),
    }),
  },
  {
    adapter: 'anthropic',
    checks: adapterChecks({
      open: options => anthropic({ ...MODEL, ...options }),
      exchanges: anthropicExchanges,
    }),
  },
];

describe.each(adapters)('the adapter $adapter over it', ({ checks }) => {
  for (const check of checks) if (!check.name.endsWith('at every position')) test(check.name, check.run);
});

async function listen(answer: RequestListener): Promise<{ url: string; server: Server } & AsyncDisposable> {
  const server = createServer(answer).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/v1`,
    server,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise(resolve => server.close(resolve));
    },
  };
}

/** A server that answers each connection with this text. */
async function listenRaw(text: string): Promise<{ url: string } & AsyncDisposable> {
  const server = createRawServer(socket => {
    socket.on('error', () => {});
    socket.once('data', () => socket.end(text));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/v1`,
    [Symbol.asyncDispose]: () => new Promise(resolve => server.close(() => resolve())),
  };
}

function ask(url: string, request: Partial<Parameters<typeof providerFetch>[1]> = {}) {
  const { signal } = new AbortController();
  return providerFetch(url, {
    method: 'POST',
    headers: {},
    body: '{}',
    signal,
    redirect: 'manual',
    ...request,
  });
}

async function textOf({ body }: ProviderResponse): Promise<string> {
  const reader = body?.getReader();
  let text = '';
  for (let read = await reader?.read(); read?.value; read = await reader?.read())
    text += Buffer.from(read.value);
  return text;
}

const chatAt = (baseURL: string) => openaiChat({ ...MODEL, baseURL, apiKey: 'k' });

const FIRST = 'data: {"choices":[{"delta":{"content":"a"}}]}\n\n';

describe('a request', () => {
  test('whose key no header can have is an error of the caller', async () => {
    const adapter = openaiChat({ ...MODEL, baseURL: 'http://127.0.0.1:9/v1', apiKey: 'sk-…' });
    const error = await rejection(adapter.generate(request('hi'), calling()));
    expect(error).toMatchObject({ code: 'unknown', retryable: false });
    expect(String(error)).toContain('Invalid character in header content');
  });

  test('has its headers beside those of fetch', async () => {
    const seen = Promise.withResolvers<object>();
    await using provider = await listen((asked, answer) => {
      seen.resolve({ method: asked.method, url: asked.url, headers: asked.headers });
      answer.end();
    });
    await ask(`${provider.url}/x?y=1`, { headers: { 'x-key': 'u', 'user-agent': 'mine' }, body: 'é' });
    expect(await seen.promise).toMatchObject({
      method: 'POST',
      url: '/v1/x?y=1',
      headers: {
        'x-key': 'u',
        'user-agent': 'mine',
        'content-length': '2',
        'accept-encoding': 'gzip, br',
      },
    });
  });

  test('on a connection that the server has just closed is sent on another one', async () => {
    const seen = new Map<unknown, number>();
    await using provider = await listen((asked, answer) => {
      const requests = (seen.get(asked.socket) ?? 0) + 1;
      seen.set(asked.socket, requests);
      if (requests > 1) asked.socket.resetAndDestroy();
      else answer.end('{}');
    });
    for (let asked = 0; asked < 3; asked += 1) expect(await textOf(await ask(provider.url))).toBe('{}');
    expect([...seen.values()]).toEqual([2, 2, 1]);
  });

  test('on a new connection that the server closes is not sent again', async () => {
    let requests = 0;
    await using provider = await listen(asked => {
      requests += 1;
      asked.socket.resetAndDestroy();
    });
    await expect(ask(provider.url)).rejects.toMatchObject({ cause: { code: 'ECONNRESET' } });
    expect(requests).toBe(1);
  });

  test('that is aborted before the answer closes its connection', async () => {
    const [arrived, closed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    await using provider = await listen(asked => {
      asked.socket.on('close', () => closed.resolve());
      arrived.resolve();
    });
    const leaving = new AbortController();
    const failed = rejection(chatAt(provider.url).generate(request('hi'), { signal: leaving.signal }));
    await arrived.promise;
    leaving.abort();
    expect(await failed).toMatchObject({ code: 'aborted' });
    await closed.promise;
  });

  test('that is aborted in the middle of the answer closes its connection', async () => {
    const closed = Promise.withResolvers<void>();
    await using provider = await listen((asked, answer) => {
      asked.socket.on('close', () => closed.resolve());
      answer.writeHead(200, { 'content-type': 'text/event-stream' }).write(FIRST);
    });
    const leaving = new AbortController();
    const deltas = chatAt(provider.url).stream(request('hi'), { signal: leaving.signal });
    const failed = rejection(
      (async () => {
        for await (const _delta of deltas) leaving.abort();
      })(),
    );
    expect(await failed).toMatchObject({ code: 'aborted' });
    await closed.promise;
  });
});

describe('an answer', () => {
  test('without a body has none', async () => {
    await using provider = await listen((_, answer) => void answer.writeHead(204).end());
    const answer = await ask(provider.url);
    expect([answer.status, answer.body]).toEqual([204, null]);
  });

  test('of status 205 with a body without end is cut off', async () => {
    const closed = Promise.withResolvers<void>();
    await using provider = await listen((asked, answer) => {
      asked.socket.on('close', () => closed.resolve());
      answer.writeHead(205);
      const more = () => {
        while (!answer.destroyed && answer.write('x'.repeat(1_000)));
      };
      answer.on('drain', more);
      more();
    });
    const adapter = openaiChat({ ...MODEL, baseURL: provider.url, apiKey: 'k', maxResponseBytes: 10_000 });
    const error = await rejection(adapter.generate(request('hi'), calling()));
    expect(error).toMatchObject({ code: 'response-too-large' });
    await closed.promise;
  }, 5_000);

  test('with a header twice has both values', async () => {
    await using provider = await listen((_, answer) => void answer.writeHead(200, { via: ['a', 'b'] }).end());
    const answer = await ask(provider.url);
    expect(answer.headers.get('via')).toBe('a, b');
  });

  test.each([
    ['gzip', gzipSync],
    ['deflate', deflateSync],
    ['br', brotliCompressSync],
  ])('that is compressed as %s is decoded', async (encoding, compress) => {
    await using provider = await listen((_, answer) => {
      answer.writeHead(200, { 'content-encoding': encoding }).end(compress('told'));
    });
    expect(await textOf(await ask(provider.url))).toBe('told');
  });

  test.each(['gzip', 'deflate', 'br'])('that is compressed as %s may be empty', async encoding => {
    await using provider = await listen((_, answer) => {
      answer.writeHead(401, { 'content-encoding': encoding }).end();
    });
    const error = await rejection(chatAt(provider.url).generate(request('hi'), calling()));
    expect(error).toMatchObject({ code: 'authentication', status: 401, retryable: false });
  });

  test('of a server whose deflate has no header is not asked for as such', async () => {
    await using provider = await listen((asked, answer) => {
      const isOffered = asked.headers['accept-encoding']?.includes('deflate') === true;
      answer.writeHead(200, isOffered ? { 'content-encoding': 'deflate' } : {});
      answer.end(isOffered ? deflateRawSync('told') : 'told');
    });
    expect(await textOf(await ask(provider.url))).toBe('told');
  });

  test('that is compressed may end without its checksum', async () => {
    await using provider = await listen((_, answer) => {
      answer.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync('told').subarray(0, -8));
    });
    expect(await textOf(await ask(provider.url))).toBe('told');
  });

  test('that is not what its encoding says is a lost connection', async () => {
    await using provider = await listen((_, answer) => {
      answer.writeHead(200, { 'content-encoding': 'gzip' }).end('plain');
    });
    const error = await rejection(chatAt(provider.url).generate(request('hi'), calling()));
    expect(error).toMatchObject({ code: 'network', retryable: true });
  });

  test('that is not HTTP is a lost connection', async () => {
    await using provider = await listenRaw('garbage\r\n\r\n');
    const error = await rejection(chatAt(provider.url).generate(request('hi'), calling()));
    expect(error).toMatchObject({ code: 'network', retryable: true });
  });

  test('that switches to another protocol is a lost connection', async () => {
    await using provider = await listenRaw(
      'HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n',
    );
    const error = await rejection(chatAt(provider.url).generate(request('hi'), calling()));
    expect(error).toMatchObject({ code: 'network', retryable: true });
  }, 5_000);

  test.each(['identity', 'gzip'])('that is aborted before its body is read (%s) fails', async encoding => {
    await using provider = await listen((_, answer) => {
      answer.writeHead(200, { 'content-encoding': encoding });
      answer.write(encoding === 'gzip' ? gzipSync(FIRST).subarray(0, 12) : FIRST);
    });
    const leaving = new AbortController();
    const { signal } = leaving;
    const answer = await ask(provider.url, { signal });
    leaving.abort();
    await new Promise(resolve => setImmediate(resolve));
    await new Promise(resolve => setImmediate(resolve));
    await expect(textOf(answer)).rejects.toThrow();
  });

  test('whose compressed connection breaks in the middle is lost', async () => {
    await using provider = await listen((asked, answer) => {
      const part = gzipSync(FIRST.repeat(100)).subarray(0, -20);
      answer.writeHead(200, { 'content-type': 'text/event-stream', 'content-encoding': 'gzip' });
      answer.write(part, () => asked.socket.destroy());
    });
    const error = await rejection(collect(chatAt(provider.url).stream(request('hi'), calling())));
    expect(error).toMatchObject({ code: 'network', retryable: true });
  });

  test('whose connection breaks in the middle is lost', async () => {
    await using provider = await listen((asked, answer) => {
      answer.writeHead(200, { 'content-type': 'text/event-stream' }).write(FIRST, () => {
        asked.socket.destroy();
      });
    });
    const error = await rejection(collect(chatAt(provider.url).stream(request('hi'), calling())));
    expect(error).toMatchObject({ code: 'network', retryable: true });
    expect(String(error)).toContain('was lost');
  });

  test('of a server that refuses the connection is an error with its address', async () => {
    const { url, ...provider } = await listen(() => undefined);
    await provider[Symbol.asyncDispose]();
    const error = await rejection(chatAt(url).generate(request('hi'), calling()));
    expect(error).toMatchObject({ code: 'network', retryable: true });
    expect(String(error)).toContain('ECONNREFUSED');
  });

  test('that redirects is not followed', async () => {
    let requests = 0;
    await using provider = await listen((_, answer) => {
      requests += 1;
      answer.writeHead(307, { location: '/elsewhere' }).end();
    });
    const error = await rejection(chatAt(provider.url).generate(request('hi'), calling()));
    expect(error).toMatchObject({ code: 'redirect-refused', status: 307 });
    expect(requests).toBe(1);
  });
});
