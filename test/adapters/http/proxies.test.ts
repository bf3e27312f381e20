import { execFile } from 'node:child_process';
import { createServer } from 'node:net';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

const CALL = `
  const [file, fetchFile] = process.argv.slice(1);
  const { openaiChat } = await import(file);
  const { providerFetch: fetch } = fetchFile === undefined ? globalThis : await import(fetchFile);
  const transcript = [{ type: 'message', role: 'user', content: [{ type: 'text', text: 'hi' }] }];
  const request = { transcript, tools: [], toolChoice: 'auto', settings: {} };
  const { signal } = new AbortController();
  await openaiChat({ model: 'm', apiKey: 'k', baseURL: 'http://provider.invalid/v1', ...(fetch && { fetch }) })
    .generate(request, { signal })
    .catch(error => console.log(error.code));
`;

test.each([
  ['a request', []],
  ['a request of a server', ['../../../server/provider-fetch.ts']],
])('%s uses the proxy that the runtime is configured with', async (_, more) => {
  const requestLine = Promise.withResolvers<string>();
  const proxy = createServer(socket => {
    socket.once('data', bytes => {
      requestLine.resolve(bytes.toString('latin1').split('\r\n', 1)[0] ?? '');
      socket.end('HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n');
    });
    socket.on('error', () => undefined);
  });
  await new Promise<void>(resolve => proxy.listen(0, '127.0.0.1', resolve));
  const address = proxy.address();
  const port = typeof address === 'object' ? address?.port : undefined;
  const files = ['../../../adapters/openai-chat.ts', ...more].map(
    path => new URL(path, import.meta.url).href,
  );
  const env = {
    ...process.env,
    NODE_USE_ENV_PROXY: '1',
    http_proxy: `http://127.0.0.1:${port}`,
    no_proxy: '',
  };
  const args = ['--input-type=module', '-e', CALL, ...files];
  const { stdout } = await promisify(execFile)(process.execPath, args, { env });
  proxy.close();
  expect(await requestLine.promise).toContain('provider.invalid');
  expect(stdout.trim()).toMatch(/^(?:server|network)$/);
});
