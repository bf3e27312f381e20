import { execFile } from 'node:child_process';
import { mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Tool } from '../../protocol/tool.ts';
import { type McpOptions, type McpToolSource, mcp } from '../../tools/mcp.ts';
import { findTool, rejectionOf, runTool } from '../support/tools/call-context.ts';

const SERVER = join(
  import.meta.dirname,
  '../../node_modules/@modelcontextprotocol/server-filesystem/dist/index.js',
);

let folder: string;
let files: McpToolSource;
let tools: readonly Tool[];

const filesystem = (options: Partial<McpOptions> = {}) =>
  mcp({ name: 'files', command: process.execPath, args: [SERVER, folder], ...options });

beforeAll(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), 'agentchart-mcp-')));
  await writeFile(join(folder, 'a.txt'), 'alpha');
  await writeFile(join(folder, 'b.txt'), 'beta');
  files = filesystem();
  tools = await files.connect();
});

afterAll(async () => {
  await files.close();
  await rm(folder, { recursive: true });
});

describe('the official filesystem server', () => {
  it('lists its tools with object schemas, without $schema', () => {
    expect(tools.length).toBeGreaterThan(10);
    expect(findTool(tools, 'write_file')).toMatchObject({
      description: expect.stringContaining('Create a new file'),
      inputSchema: { type: 'object', required: ['path', 'content'] },
      retries: 0,
    });
    for (const { inputSchema } of tools) expect(inputSchema).not.toHaveProperty('$schema');
  });

  it('answers parallel calls, each with its own text', async () => {
    const read = (name: string) => runTool(tools, 'read_text_file', { path: join(folder, name) });
    expect(await Promise.all([read('a.txt'), read('b.txt')])).toEqual(['alpha', 'beta']);
  });

  it('writes a file', async () => {
    await runTool(tools, 'write_file', { path: join(folder, 'c.txt'), content: 'gamma' });
    expect(await readFile(join(folder, 'c.txt'), 'utf8')).toBe('gamma');
  });

  it('turns an error result into an Error with its text', async () => {
    const error = await rejectionOf(runTool(tools, 'read_text_file', { path: '/etc/hostname' }));
    expect(error).toMatchObject({ name: 'Error', message: expect.stringContaining('Access denied') });
  });

  it('has its arguments validated before the call, by path', async () => {
    const edit = findTool(tools, 'edit_file');
    expect(await edit.validate({ edits: [{ oldText: 1, newText: '' }] })).toEqual({
      valid: false,
      message: "must have required property 'path', edits.0.oldText: must be string",
    });
    expect(await edit.validate(['a'])).toMatchObject({ valid: false });
  });

  it('has only `once` tools without trustHints', () => {
    expect(new Set(tools.map(tool => tool.sideEffect))).toEqual(new Set(['once']));
  });

  it('has the side effects of its hints with trustHints, unless they are overridden', async () => {
    const trusted = filesystem({
      trustHints: true,
      prefix: 'fs_',
      tools: {
        list_directory: { sideEffect: 'once' },
        move_file: { hidden: true },
        write_file: {
          approval: ({ input }) => ({ required: true, reason: JSON.stringify(input) }),
          reconcile: () => ({ happened: false }),
          description: 'Writes.',
          timeoutMs: 500,
        },
        read_text_file: { retries: 2 },
      },
    });
    const believed = await trusted.connect();
    await trusted.close();
    const find = (name: string) => findTool(believed, name);
    expect(find('fs_read_text_file')).toMatchObject({ sideEffect: 'none', retries: 2 });
    expect(find('fs_create_directory').sideEffect).toBe('idempotent');
    expect(find('fs_edit_file').sideEffect).toBe('once');
    expect(find('fs_list_directory').sideEffect).toBe('once');
    expect(believed.map(tool => tool.name)).not.toContain('fs_move_file');
    expect(find('fs_write_file')).toMatchObject({ description: 'Writes.', timeoutMs: 500 });
    const ids = { callId: 'c', runId: 'r', name: 'fs_write_file' };
    const call = { ...ids, input: { path: 'x' }, runContext: undefined };
    expect(await find('fs_write_file').approval(call)).toEqual({ required: true, reason: '{"path":"x"}' });
    expect('reconcile' in find('fs_write_file')).toBe(true);
    expect('reconcile' in find('fs_edit_file')).toBe(false);
  });

  it('exits by itself once it is closed', async () => {
    const script = `
      import { mcp } from './tools/mcp.ts';
      const files = mcp({ command: process.execPath, args: ${JSON.stringify([SERVER, folder])} });
      const tools = await files.connect();
      console.log(tools.length);
      await files.close();`;
    const root = join(import.meta.dirname, '../..');
    const { stdout, stderr } = await promisify(execFile)(
      process.execPath,
      ['--input-type=module', '--eval', script],
      { cwd: root, timeout: 20_000 },
    );
    expect({ stdout, stderr }).toEqual({ stdout: `${tools.length}\n`, stderr: '' });
  });
});
