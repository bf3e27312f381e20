import type { Context } from 'hono';
import * as z from 'zod';
import { invalidInput } from '../../../protocol/error.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import { parseLabels } from '../../../protocol/listing/label.ts';
import {
  TOTALS_MEMBERS,
  type Totals,
  type TotalsQuery,
  type TotalsRow,
} from '../../../protocol/listing/totals.ts';
import type { Store } from '../../../protocol/store.ts';
import { withLabelsOf } from '../../access/authorize.ts';
import { fields, optional } from '../../fields.ts';
import type { RunsEnv } from '../../runs-env.ts';
import { filterFields } from '../commands/request-bodies.ts';

export const totalsQuery = fields({
  ...filterFields,
  by: optional(
    z.array(z.string()),
    'What the runs are grouped by: status, agent, model, errorCode, or label:NAME; repeatable, with one label at most.',
  ),
  every: optional(
    z.coerce.number().int(),
    'Also groups by the time of creation, in steps of so many ms, at least 1000.',
  ),
});

const rowSchema = z.object({
  status: z.exactOptional(z.string()),
  agent: z.exactOptional(z.string()),
  model: z.exactOptional(z.string()),
  errorCode: z.exactOptional(z.string()),
  label: optional(z.string(), 'The value of the label.'),
  at: optional(z.number(), 'The start of the step in which the runs were created, in ms since the epoch.'),
  runs: z.number().int(),
  turns: z.number().int(),
  tokens: z.number().meta({ description: 'Input and output tokens.' }),
  cached: z.number().meta({
    description: "Of `cachedOf` input tokens, so many came from the provider's cache.",
  }),
  cachedOf: z.number(),
  cost: z.number(),
  activeMs: z.number(),
  doubts: z.number().int().meta({ description: 'The runs that wait for the decision of a doubt.' }),
}) satisfies z.ZodType<TotalsRow>;

export const totalsSchema = z.object({
  rows: z.array(rowSchema).meta({
    description: 'The newest steps first. A member that the runs of a row do not have is absent.',
  }),
  more: optional(z.literal(true), 'There are more than these 5,000 rows.'),
}) satisfies z.ZodType<Totals>;

export async function readTotals(
  c: Context<RunsEnv>,
  { label = [], by = [], every, ...filter }: z.output<typeof totalsQuery>,
  store: Store,
): Promise<Response> {
  const labels = withLabelsOf(c.get('caller'), parseLabels(label));
  const totals = await store.totals(
    { ...filter, labels },
    { by: by.map(readGroup), ...omitUndefined({ every }) },
  );
  return c.json(totals);
}

function readGroup(text: string): NonNullable<TotalsQuery['by']>[number] {
  const member = TOTALS_MEMBERS.find(name => name === text);
  if (member !== undefined) return member;
  if (text.startsWith('label:')) return { label: text.slice('label:'.length) };
  throw invalidInput(`by: expected ${TOTALS_MEMBERS.join(', ')} or label:NAME, got ${JSON.stringify(text)}`);
}
