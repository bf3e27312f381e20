import { join } from 'node:path';
import { type McpServer, ResourceTemplate } from '@modelcontextprotocol/server';
import { afterEach, describe, expect, it } from 'vitest';
import * as z from 'zod';
import { createAgent } from '../../agent/agent.ts';
import { InDoubt } from '../../protocol/error.ts';
import { mcp } from '../../tools/mcp.ts';
import { answerWith, recordRequests } from '../support/engine/models.ts';
import { findTool, rejectionOf, runTool } from '../support/tools/call-context.ts';
import { closeDesks, desk, start } from '../support/tools/http-desk.ts';

afterEach(closeDesks);

const PNG = 'AAAA';

function library(server: McpServer): void {
  server.registerResource(
    'minutes',
    'desk://minutes/march',
    { description: 'Of March.', mimeType: 'text/plain' },
    uri => ({
      contents: [{ uri: uri.href, mimeType: 'text/plain', text: 'We met.' }],
    }),
  );
  server.registerResource('seal', 'desk://seal', { mimeType: 'image/png' }, uri => ({
    contents: [
      { uri: uri.href, mimeType: 'image/png', blob: PNG },
      { uri: `${uri.href}/about`, mimeType: 'text/plain', text: 'Red.' },
    ],
  }));
  server.registerResource(
    'order',
    new ResourceTemplate('desk://orders/{id}', { list: undefined }),
    {},
    (uri, { id }) => ({
      contents: [{ uri: uri.href, text: `order ${id}` }],
    }),
  );
  server.registerPrompt(
    'review',
    {
      title: 'Review',
      description: 'Reviews an order.',
      argsSchema: z.object({ order: z.string(), tone: z.string().optional() }),
    },
    ({ order, tone }) => ({
      messages: [
        {
          role: 'user',
          content: { type: 'text', text: `Review ${order}${tone === undefined ? '' : ` ${tone}`}.` },
        },
        { role: 'assistant', content: { type: 'text', text: 'Which parts?' } },
        { role: 'assistant', content: { type: 'image', data: PNG, mimeType: 'image/png' } },
        { role: 'user', content: { type: 'resource', resource: { uri: 'desk://parts', text: 'All.' } } },
      ],
    }),
  );
}

describe.each(['earlier', 'current'] as const)('a server of the %s revision', serves => {
  const open = async () => await start({ serves, add: library });

  it('has its resources listed and read by two tools, as texts, images and files', async () => {
    const server = await open();
    const tools = await desk(server.url, { resources: true }).connect();
    expect(tools.map(({ name }) => name)).toEqual([
      'echo',
      'fail',
      'hold',
      'hold_again',
      'list_resources',
      'read_resource',
    ]);
    expect(findTool(tools, 'read_resource').sideEffect).toBe('none');
    expect(await runTool(tools, 'list_resources')).toEqual({
      resources: [
        { uri: 'desk://minutes/march', name: 'minutes', description: 'Of March.', mimeType: 'text/plain' },
        { uri: 'desk://seal', name: 'seal', mimeType: 'image/png' },
      ],
      templates: [{ uriTemplate: 'desk://orders/{id}', name: 'order' }],
    });
    expect(await runTool(tools, 'read_resource', { uri: 'desk://minutes/march' })).toBe('We met.');
    expect(await runTool(tools, 'read_resource', { uri: 'desk://orders/7' })).toBe('order 7');
    expect(await runTool(tools, 'read_resource', { uri: 'desk://seal' })).toEqual({
      type: 'content',
      parts: [
        { type: 'text', text: '[desk://seal]' },
        { type: 'image', url: `data:image/png;base64,${PNG}` },
        { type: 'text', text: '[desk://seal/about]' },
        { type: 'text', text: 'Red.' },
      ],
    });
    const missing = await rejectionOf(runTool(tools, 'read_resource', { uri: 'desk://nothing' }));
    expect(String(missing)).toMatch(/"read_resource": .*desk:\/\/nothing/);
    expect(missing).not.toBeInstanceOf(InDoubt);
    expect(await findTool(tools, 'read_resource').validate({})).toMatchObject({ valid: false });
  });

  it('gives the messages of a prompt as the input of a run', async () => {
    const server = await open();
    const source = desk(server.url);
    expect(await source.prompts()).toEqual([
      {
        name: 'review',
        title: 'Review',
        description: 'Reviews an order.',
        arguments: [
          { name: 'order', required: true },
          { name: 'tone', required: false },
        ],
      },
    ]);
    const { model, requests } = recordRequests(answerWith(() => ({ text: 'Fine.' })));
    const agent = createAgent({ name: 'a', model, tools: [source] });
    const settled = await agent.run(await source.prompt('review', { order: 'A-1' }));
    expect(settled).toMatchObject({ status: 'finished', text: 'Fine.' });
    expect(requests[0]?.transcript).toMatchObject([
      { role: 'user', content: [{ type: 'text', text: 'Review A-1.' }] },
      { role: 'assistant', content: [{ type: 'text', text: 'Which parts?' }] },
      { role: 'assistant', content: [{ type: 'text', text: '[image/png image, 1 KiB]' }] },
      { role: 'user', content: [{ type: 'text', text: 'All.' }] },
    ]);
  });

  it('refuses a prompt that it does not have, and arguments that the prompt does not take', async () => {
    const server = await open();
    const source = desk(server.url);
    const refused = async (name: string, args?: Record<string, string>) => {
      const error = await rejectionOf(source.prompt(name, args));
      expect(error).toMatchObject({ code: 'input-invalid' });
      return String(error);
    };
    expect(await refused('revue')).toContain('"desk" has no prompt "revue": it has "review"');
    expect(await refused('review')).toContain('takes order, tone (optional); without order');
    expect(await refused('review', { order: 'A', id: '7' })).toContain('got id');
    expect(server.listMethods()).not.toContain('prompts/get');
  });
});

describe('resources', () => {
  it('have no tools on a server without any', async () => {
    const server = await start();
    const tools = await desk(server.url, { resources: true }).connect();
    expect(tools.map(({ name }) => name)).not.toContain('read_resource');
    expect(await desk(server.url).prompts()).toEqual([]);
  });

  it('have tools with the given names, the prefix, and overrides', async () => {
    const server = await start({ add: library });
    const tools = await desk(server.url, {
      prefix: 'd_',
      resources: { list: 'documents', read: 'document' },
      tools: { document: { approval: true, tags: ['untrusted'] }, documents: { hidden: true } },
    }).connect();
    const read = findTool(tools, 'd_document');
    expect(read).toMatchObject({ fixedApproval: true, tags: ['untrusted'] });
    expect(tools.map(({ name }) => name)).not.toContain('d_documents');
  });

  it('are listed page by page, with what a page cannot hold counted as left out', async () => {
    const page = (from: number, count: number, nextCursor?: string) => ({
      resources: Array.from({ length: count }, (_, at) => ({
        uri: `desk://${from + at}`,
        name: 'x'.repeat(2_000),
      })),
      ...(nextCursor !== undefined && { nextCursor }),
    });
    const pages: Record<string, object> = { first: page(0, 1_001, 'b'), b: page(1_001, 1) };
    const server = await start({
      add: library,
      instead: async (request, says) => {
        if (says !== 'resources/list') return undefined;
        const { id, params } = (await request.clone().json()) as { id: number; params?: { cursor?: string } };
        return Response.json({ jsonrpc: '2.0', id, result: pages[params?.cursor ?? 'first'] });
      },
    });
    const tools = await desk(server.url, { resources: true }).connect();
    const first = (await runTool(tools, 'list_resources')) as { resources: { name: string }[] };
    expect(first).toMatchObject({ leftOut: true, nextCursor: 'b' });
    expect(first.resources).toHaveLength(1_000);
    expect(first.resources[0]?.name).toBe(`${'x'.repeat(1_000)}…`);
    expect(await runTool(tools, 'list_resources', { cursor: 'b' })).toMatchObject({
      resources: [{ uri: 'desk://1001' }],
    });
  });

  it('and prompts of the official reference server are read', async () => {
    const file = join(
      import.meta.dirname,
      '../../node_modules/@modelcontextprotocol/server-everything/dist/index.js',
    );
    const source = mcp({
      name: 'everything',
      command: process.execPath,
      args: [file, 'stdio'],
      resources: true,
    });
    const tools = await source.connect();
    const text = await runTool(tools, 'read_resource', { uri: 'demo://resource/dynamic/text/3' });
    expect(text).toMatch(/^Resource 3: /);
    expect(await source.prompt('args-prompt', { city: 'Ulm' })).toEqual([
      { type: 'message', role: 'user', content: [{ type: 'text', text: "What's weather in Ulm?" }] },
    ]);
    await source.close();
  });

  it('that the server has no room for are an error of its own, after a new session if that was lost', async () => {
    const server = await start({ add: library });
    const source = desk(server.url);
    await source.connect();
    server.loseSessions();
    expect(await source.prompts()).toHaveLength(1);
    expect(server.sessions).toBe(1);
  });
});
