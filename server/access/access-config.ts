import * as z from 'zod';
import { ROLES } from '../../access/role.ts';
import { messageOf } from '../../protocol/error.ts';
import { readLabels } from '../../protocol/listing/label.ts';
import { camelCased, fields, optional } from '../fields.ts';

const count = z.int().positive();
const dollars = z.number().positive();

/** Tokens and dollars count the model calls of its requests to `/v1`. */
const callerLimits = fields({
  concurrent_runs: optional(count, 'Runs in progress at the same time. Further requests get 429.'),
  tokens_per_minute: optional(count, 'Input and output tokens within the last 60 seconds.'),
  tokens_per_day: optional(count, 'Input and output tokens since midnight UTC.'),
  spend_per_day_usd: optional(
    dollars,
    'US dollars since midnight UTC, by `prices`. Requires a price for each model.',
  ),
}).transform(camelCased);
export type CallerLimits = z.output<typeof callerLimits>;

const text = z.string().min(1).max(256);

export const tokensConfig = z.record(
  z.string().regex(/^[A-Za-z0-9][\w.-]{0,63}$/, 'expected a name of letters, digits, "_", "-" and "."'),
  fields({
    token: z
      .string()
      .min(1)
      .meta({ description: 'The token, usually as a variable of the environment in braces.' }),
    role: z.enum(ROLES).meta({
      description:
        'operator: everything. approver: read runs and decide calls. requester: start runs, read and write in its own. viewer: read runs. client: /v1 only.',
    }),
    name: optional(
      text,
      'Who uses the token. Two tokens with one name are one person: approvals count it once. Default: the name of the token.',
    ),
    groups: optional(
      z.array(text).min(1).max(100),
      'The groups in whose name it may decide, as approvals name them.',
    ),
    labels: optional(
      z.record(text, text).superRefine((labels, context) => {
        try {
          readLabels(labels);
        } catch (error) {
          context.addIssue({ code: 'custom', message: messageOf(error) });
        }
      }),
      'The labels of the runs that requests with this token start. Clients share conversations with tokens of the same labels, and with no others.',
    ),
    limits: z.exactOptional(callerLimits),
  }),
);
export type TokensConfig = z.output<typeof tokensConfig>;

const MIB = 1024 * 1024;

export const serverLimits = fields({
  concurrent_runs: z._default(
    count.meta({ description: 'Runs that requests have in progress at the same time.' }),
    1_000,
  ),
  open_streams: z._default(
    count.meta({ description: 'Event streams that are open at the same time.' }),
    1_000,
  ),
  body_bytes: z._default(
    z
      .int()
      .min(1_024)
      .max(512 * MIB)
      .meta({ description: 'Size of the body of a request to /v1.' }),
    32 * MIB,
  ),
  input_items: z._default(
    z.int().min(1).max(10_000).meta({ description: 'Input items of a request to /v1.' }),
    10_000,
  ),
}).transform(camelCased);
export type ServerLimits = z.output<typeof serverLimits>;

export const DEFAULT_CALLER_LIMITS: ServerLimits = serverLimits.parse({});

export const corsConfig = fields({
  origins: z.array(
    z
      .string()
      .refine(isOrigin, 'expected an origin such as "https://app.example", without a path')
      .meta({ description: 'An origin such as https://app.example.' }),
  ),
});

function isOrigin(text: string): boolean {
  return URL.canParse(text) && new URL(text).origin === text;
}
