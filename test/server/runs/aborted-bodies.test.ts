import { connect } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { type Serving, serveRuns } from '../../../server/serve.ts';
import { makeApp, type TestApp, until } from '../../support/server/runs-app.ts';

const closing: Serving[] = [];
const rejections: unknown[] = [];
const note = (reason: unknown) => rejections.push(reason);

afterEach(async () => {
  process.off('unhandledRejection', note);
  for (const serving of closing.splice(0)) await serving.close();
});

async function serve(): Promise<{ desk: TestApp; port: number }> {
  process.on('unhandledRejection', note);
  const desk = makeApp();
  const serving = await serveRuns(desk.app, { host: '127.0.0.1', port: 0 });
  closing.push(serving);
  return { desk, port: serving.port };
}

/** Sends the head of a request and a part of its body, then closes the connection. */
function breakOff(port: number, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => {
      const head = `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nContent-Type: application/json\r\n`;
      socket.write(`${head}Content-Length: 1000\r\n\r\n{"input":`, () => {
        setImmediate(() => socket.resetAndDestroy());
      });
    });
    socket.on('error', reject);
    socket.on('close', () => resolve());
  });
}

test.each(['/runs', '/session', '/runs/run_1/approve'])(
  'an aborted body to %s logs one line without a stack and leaves no unhandled rejection',
  async path => {
    const { desk, port } = await serve();
    await breakOff(port, path);
    await until(() => desk.log[0]);
    await new Promise(resolve => setImmediate(resolve));
    expect(desk.log).toEqual([
      expect.stringMatching(
        /^Request req_[0-9a-f]{32}: The connection ended before the body was complete\.$/,
      ),
    ]);
    expect(rejections).toEqual([]);
    expect((await desk.store.list({ limit: 1000 })).runs).toEqual([]);
    expect((await fetch(`http://127.0.0.1:${port}/healthz`)).status).toBe(200);
  },
);
