import * as z from 'zod';
import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../../adapters/scripted.ts';
import { type Agent, createAgent, type Store, tool } from '../../../agent/index.ts';
import { EngineError, InDoubt } from '../../../protocol/error.ts';
import type { AgentTool, Tool } from '../../../protocol/tool.ts';

const refund = tool({
  name: 'refund',
  description: 'Pays money back.',
  input: z.object({
    cents: z.int().min(1).max(50_000).describe('What the customer gets, in cents'),
    orderId: z.string(),
    note: z.string().optional(),
    speed: z.enum(['normal', 'express']).optional(),
    due: z.iso.date().optional(),
    notify: z.boolean().optional(),
    address: z.object({ street: z.string(), house: z.int() }).optional(),
    tags: z.array(z.string()).optional(),
  }),
  approval: ({ input }) => ({ required: true, reason: input.note === undefined ? 'no note' : 'pays back' }),
  run: ({ cents }) => ({ refunded: cents }),
});

const email = tool({
  name: 'email',
  description: 'Writes to a customer.',
  input: z.object({ to: z.string() }),
  approval: () => ({ required: true, by: 'support' }),
  run: () => 'sent',
});

const deploy = tool({
  name: 'deploy',
  description: 'Deploys a version.',
  input: z.object({ version: z.string() }),
  run: () => {
    throw new InDoubt('the connection was lost');
  },
});

const crm = {
  async connect(): Promise<Tool[]> {
    throw new EngineError('sign-in-needed', 'Sign in.', { server: 'crm', url: 'https://crm.test/mcp' });
  },
  async close() {},
};

const PARCELS = [1, 2, 3, 4, 5, 6].map(number => ({
  name: 'refund',
  arguments: { cents: 7350, orderId: 'B-2', note: `parcel ${number} of 6` },
}));

const SINGLE = { name: 'refund', arguments: { cents: 4200, orderId: 'A-1001' } };

type Calls = NonNullable<ScriptedTurn['toolCalls']>;

/** Agents whose runs wait for a person, by their names. */
export function makeInboxAgents(store: Store): Readonly<Record<string, Agent>> {
  const make = (name: string, tools: AgentTool[], toolCalls: Calls): Agent =>
    createAgent({
      name,
      store,
      tools,
      model: scripted([{ text: 'I looked at all of it.', toolCalls }, { text: 'All done.' }]),
    });
  return {
    parcels: make('parcels', [refund as Tool], PARCELS),
    single: make('single', [refund as Tool], [SINGLE]),
    letters: make('letters', [email as Tool], [{ name: 'email', arguments: { to: 'ada@example.com' } }]),
    releases: make('releases', [deploy as Tool], [{ name: 'deploy', arguments: { version: '2.4.0' } }]),
    accounts: make('accounts', [crm], []),
    twice: make('twice', [refund as Tool], [SINGLE, SINGLE]),
  };
}
