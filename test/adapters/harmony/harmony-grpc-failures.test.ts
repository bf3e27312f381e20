import { type AddressInfo, connect, createServer } from 'node:net';
import { status } from '@grpc/grpc-js';
import { describe, expect, test } from 'vitest';
import { loadPeer } from '../../../adapters/grpc/adapter.ts';
import { messagesOf, startEngine } from '../../support/adapters/grpc-engine.ts';
import { CONTEXT, HarmonyEngine, REPLY } from '../../support/adapters/harmony/engine.ts';
import { idsOf } from '../../support/adapters/harmony/ids.ts';
import { calling, rejection, request } from '../../support/adapters/requests.ts';

const engine = HarmonyEngine.forFile();
describe('an aborted call', () => {
  test('cancels its stream and sends Abort with its own id', async () => {
    const cancelled = Promise.withResolvers<void>();
    engine.respondWith(async function* (_, signal) {
      yield* messagesOf(idsOf(REPLY)).slice(0, 3);
      signal.addEventListener('abort', () => cancelled.resolve());
      await cancelled.promise;
    });
    const controller = new AbortController();
    const failed = rejection(
      (async () => {
        for await (const delta of engine.open().stream(request('hi'), { signal: controller.signal })) {
          if (delta.type === 'reasoning') controller.abort();
        }
      })(),
    );
    expect(await failed).toMatchObject({ code: 'aborted' });
    await cancelled.promise;
    expect(await engine.aborted()).toEqual([engine.requests[0]?.request_id]);
  });

  test('sends no Abort if it is complete', async () => {
    const controller = new AbortController();
    await engine.open().generate(request('hi'), { signal: controller.signal });
    controller.abort();
    engine.respondWith(async function* (_, signal) {
      yield* messagesOf(idsOf(REPLY)).slice(0, 3);
      await new Promise(resolve => signal.addEventListener('abort', resolve));
    });
    const error = await rejection(engine.generate(request('hi'), { idleTimeoutMs: 20 }));
    expect(error).toMatchObject({ code: 'timeout' });
    expect(await engine.aborted()).toEqual([engine.requests[1]?.request_id]);
  });
});

describe('a failure', () => {
  test.each<[number, string, object]>([
    [status.INVALID_ARGUMENT, 'top_k must be -1 or more', { code: 'invalid-request', retryable: false }],
    [
      status.INVALID_ARGUMENT,
      "This model's maximum context length is 8 tokens",
      { code: 'context-too-long' },
    ],
    [status.UNAUTHENTICATED, 'who?', { code: 'authentication', retryable: false }],
    [status.PERMISSION_DENIED, 'no', { code: 'permission' }],
    [status.RESOURCE_EXHAUSTED, 'too many', { code: 'rate-limit', retryable: true }],
    [status.UNAVAILABLE, 'starting', { code: 'overloaded', retryable: true }],
    [status.DEADLINE_EXCEEDED, 'slow', { code: 'timeout', retryable: true }],
    [status.INTERNAL, 'EngineCore died', { code: 'server', retryable: true }],
    [status.UNIMPLEMENTED, 'no such method', { code: 'not-found', retryable: false }],
    [status.UNKNOWN, 'who knows', { code: 'server', retryable: true }],
  ])('with status %i (%s) is a ProviderError with its code', async (code, details, expected) => {
    for (const sent of [0, 2]) {
      engine.respondWith(async function* () {
        yield* messagesOf(idsOf(REPLY)).slice(0, sent);
        throw { code, details };
      });
      const error = await rejection(engine.generate(request('hi')));
      expect(error).toMatchObject({ name: 'ProviderError', status: null, ...expected });
      if (code !== status.UNAUTHENTICATED) expect(String(error)).toContain(details);
    }
  });

  test('to connect is a network error, and the next call connects again', async () => {
    const gone = await startEngine(async function* () {});
    await gone[Symbol.asyncDispose]();
    const adapter = engine.open({ baseURL: gone.baseURL });
    const error = await rejection(adapter.generate(request('hi'), calling()));
    expect(error).toMatchObject({ code: 'network', retryable: true });
    expect(String(error)).toContain('HARMONY_BASE_URL');
  });

  test('in the middle is a network error, whether the server ends the call or the connection is lost', async () => {
    const dying = await startEngine(async function* () {
      yield* messagesOf(idsOf(REPLY)).slice(0, 2);
      queueMicrotask(() => void dying[Symbol.asyncDispose]());
      await new Promise(() => undefined);
    });
    const lost = { code: 'network', retryable: true };
    expect(await rejection(engine.generate(request('hi'), { baseURL: dying.baseURL }))).toMatchObject(lost);

    const { hostname, port } = new URL(engine.baseURL);
    const line = createServer(socket => {
      const upstream = connect(Number(port), hostname);
      socket.pipe(upstream).pipe(socket);
      for (const end of [socket, upstream]) end.on('error', () => undefined);
      engine.respondWith(async function* () {
        yield* messagesOf(idsOf(REPLY)).slice(0, 2);
        socket.destroy();
        await new Promise(() => undefined);
      });
    });
    await new Promise<void>(resolve => line.listen(0, '127.0.0.1', resolve));
    const baseURL = `grpc://127.0.0.1:${(line.address() as AddressInfo).port}`;
    expect(await rejection(engine.generate(request('hi'), { baseURL }))).toMatchObject(lost);
    line.close();
  });

  test('to end the stream properly is malformed, and so is a reply that the server aborted', async () => {
    engine.respondWith(async function* () {
      yield* messagesOf(idsOf(REPLY)).slice(0, -1);
    });
    expect(await rejection(engine.generate(request('hi')))).toMatchObject({
      code: 'malformed-stream',
      retryable: true,
    });
    engine.answer(REPLY, { finish: 'abort' });
    expect(await rejection(engine.generate(request('hi')))).toMatchObject({
      code: 'malformed-stream',
      retryable: true,
    });
  });

  test('to stay within the size limit ends the call', async () => {
    const error = await rejection(engine.generate(request('hi'), { maxResponseBytes: 30 }));
    expect(error).toMatchObject({ code: 'response-too-large', retryable: false });
  });

  test('to find a package names the command that installs it', async () => {
    const name = 'a-package-that-is-not-installed';
    const error = await rejection(loadPeer(`${name}/module`, CONTEXT));
    expect(String(error)).toContain(`npm install ${name}`);
  });
});
