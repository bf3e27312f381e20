import { describe, expect, it } from 'vitest';
import * as z from 'zod';
import type { Tool, ToolSource } from '../../protocol/tool.ts';
import { connectTools } from '../../tools/connect-tools.ts';
import { tool } from '../../tools/tool.ts';
import { rejectionOf } from '../support/tools/call-context.ts';

const named = (name: string): Tool => tool({ name, description: '', input: z.object({}) });

type Source = ToolSource & { state: 'new' | 'connected' | 'closed' };

function source(tools: Tool[], name?: string): Source {
  const made: Source & { name?: string } = {
    state: 'new',
    async connect() {
      made.state = 'connected';
      return tools;
    },
    async close() {
      made.state = 'closed';
    },
  };
  if (name !== undefined) made.name = name;
  return made;
}

describe('connectTools', () => {
  it('returns tools and the tools of sources by name, in order', async () => {
    const { tools } = await connectTools([named('a'), source([named('b'), named('c')]), named('d')]);
    expect([...tools.keys()]).toEqual(['a', 'b', 'c', 'd']);
    expect(tools.get('c')?.name).toBe('c');
  });

  it('finds no tool under a name of Object.prototype, unless one has that name', async () => {
    const { tools } = await connectTools([named('a')]);
    expect(tools.get('constructor')).toBeUndefined();
    expect(tools.has('__proto__')).toBe(false);
    const odd = await connectTools([named('constructor'), named('__proto__')]);
    expect([...odd.tools.keys()]).toEqual(['constructor', '__proto__']);
  });

  it('refuses a duplicate name, names both owners and closes the sources', async () => {
    const files = source([named('read')], 'files');
    const other = source([named('read')]);
    const error = await rejectionOf(connectTools([files, other]));
    expect(error).toMatchObject({
      code: 'agent-invalid',
      message: expect.stringMatching(
        /named "read": one from tools\[0\] \("files"\) and one from tools\[1\] \(a tool source\)/,
      ),
    });
    expect([files.state, other.state]).toEqual(['closed', 'closed']);
    await expect(connectTools([named('x'), named('x')])).rejects.toThrow(
      /tools\[0\] and one from tools\[1\]/,
    );
  });

  it('closes the connected sources when one fails, and rejects with its error', async () => {
    const good = source([named('a')]);
    const bad = { ...source([]), connect: () => Promise.reject(new Error('no such server')) };
    await expect(connectTools([good, bad])).rejects.toThrow('no such server');
    expect(good.state).toBe('closed');
  });

  it('closes every source even when one fails to close, and rejects with its error', async () => {
    const stuck = { ...source([]), close: () => Promise.reject(new Error('stuck')) };
    const good = source([named('a')]);
    const { close } = await connectTools([stuck, good]);
    await expect(close()).rejects.toThrow('stuck');
    expect(good.state).toBe('closed');
  });
});

describe('refresh', () => {
  /** Its tools are replaced, which makes it stale. */
  function changing(first: readonly Tool[]) {
    let tools = first;
    const made = {
      connects: 0,
      isStale: false,
      change(now: readonly Tool[]) {
        tools = now;
        made.isStale = true;
      },
      async connect() {
        made.connects += 1;
        made.isStale = false;
        return tools;
      },
      async close() {},
    };
    return made;
  }

  it('connects only what is stale, and gives the same tools if nothing has changed', async () => {
    const [one, other] = [changing([named('a')]), changing([named('b')])];
    const first = await connectTools([one, other]);
    expect(await first.refresh()).toBe(first);
    one.change([named('a'), named('c')]);
    const second = await first.refresh();
    expect([...second.tools.keys()]).toEqual(['a', 'c', 'b']);
    expect(second.tools.get('b')).toBe(first.tools.get('b'));
    expect([one.connects, other.connects]).toEqual([2, 1]);
    expect(await second.refresh()).toBe(second);
  });

  it('keeps the known tools where the present ones have the name of another', async () => {
    const one = changing([named('a')]);
    const first = await connectTools([one, named('b')]);
    one.change([named('b')]);
    expect(await first.refresh()).toBe(first);
    expect([...first.tools.keys()]).toEqual(['a', 'b']);
  });
});
