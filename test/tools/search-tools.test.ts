import { describe, expect, it } from 'vitest';
import * as z from 'zod';
import type { JsonValue } from '../../protocol/json.ts';
import type { Tool } from '../../protocol/tool.ts';
import { connectTools } from '../../tools/connect-tools.ts';
import { SEARCH_TOOL, searchTool } from '../../tools/search-tools.ts';
import { tool } from '../../tools/tool.ts';
import { createContext, rejectionOf } from '../support/tools/call-context.ts';

const deferred = (name: string, description = '', label?: string): Tool => ({
  ...tool({ name, description, input: z.object({}), deferred: true }),
  ...(label === undefined ? {} : { origin: { label, tool: { name, inputSchema: {} } } }),
});

const shop = [
  deferred('createInvoice', 'Writes an invoice for a customer.'),
  deferred('refund_payment', 'Pays a customer back.'),
  deferred('list_customers', 'Lists all customers of the shop.'),
  deferred('close_ticket', 'Closes a ticket.', 'helpdesk'),
];

function find(query: string, tools: readonly Tool[] = shop): string[] {
  const search = searchTool(tools);
  return search.finds?.(search.run?.({ query }, createContext()) as JsonValue) ?? [];
}

describe('the search for deferred tools', () => {
  it('finds words of names first, then of descriptions, also by their beginning', () => {
    expect(find('invoice')).toEqual(['createInvoice']);
    expect(find('refunds')).toEqual(['refund_payment']);
    expect(find('customer')).toEqual(['list_customers', 'createInvoice', 'refund_payment']);
    expect(find('helpdesk')).toEqual(['close_ticket']);
    expect(find('CLOSE_TICKET')[0]).toBe('close_ticket');
  });

  it('counts a word more, the fewer tools have it', () => {
    const tools = [
      ...Array.from({ length: 20 }, (_, at) => deferred(`get_item_${at}`)),
      deferred('zebra', 'Counts.'),
    ];
    expect(find('get the zebra', tools)[0]).toBe('zebra');
  });

  it('says so if it finds nothing, and finds nothing without words', () => {
    const search = searchTool(shop);
    expect(search.run?.({ query: '…' }, createContext())).toEqual({ tools: [], note: expect.any(String) });
    expect(find('xylophone')).toEqual([]);
    expect(search.finds?.('an error')).toEqual([]);
  });

  it('finds the best, and others only while their definitions together stay small', () => {
    const large = (name: string) => deferred(name, `Does a task. ${'x'.repeat(2_500)}`);
    const tools = [
      deferred('huge_task', 'x'.repeat(9_000)),
      large('task_1'),
      large('task_2'),
      large('task_3'),
    ];
    expect(find('huge task', tools)).toEqual(['huge_task']);
    expect(find('task', [...tools.slice(1), deferred('small_task')])).toEqual([
      'task_1',
      'task_2',
      'small_task',
    ]);
  });

  it('finds at most eight, each described in a line', () => {
    const tools = Array.from({ length: 500 }, (_, at) => deferred(`task_${at}`, 'x'.repeat(500)));
    const text = JSON.stringify(searchTool(tools).run?.({ query: 'task' }, createContext()));
    expect(find('task', tools)).toHaveLength(8);
    expect(text.length).toBeLessThan(2_000);
  });

  it('says how many tools of which servers there are, in few words', () => {
    const tools = Array.from({ length: 600 }, (_, at) =>
      deferred(`t_${at}`, '', `server ${at % 40} ${'x'.repeat(100)}`),
    );
    expect(searchTool(shop).description).toContain('4 more: 3 of this application, 1 of helpdesk.');
    expect(searchTool(tools).description).toContain(' and of 30 other servers.');
    expect(searchTool(tools).description.length).toBeLessThan(1_000);
  });
});

describe('the tools of an agent', () => {
  it('have a search only if one of them is deferred', async () => {
    const plain = tool({ name: 'a', description: '', input: z.object({}) });
    expect([...(await connectTools([plain])).tools.keys()]).toEqual(['a']);
    expect([...(await connectTools([...shop, plain])).tools.keys()].at(-1)).toBe(SEARCH_TOOL);
  });

  it('give way to the name of the search: a tool of a server is renamed, another is refused', async () => {
    const { tools } = await connectTools([deferred(SEARCH_TOOL, '', 'desk')]);
    expect([...tools.keys()]).toEqual(['mcp_desk_search_tools', SEARCH_TOOL]);
    expect(await rejectionOf(connectTools([deferred(SEARCH_TOOL)]))).toMatchObject({
      code: 'agent-invalid',
      message: expect.stringContaining('one from the search for deferred tools and one from tools[0]'),
    });
  });
});
