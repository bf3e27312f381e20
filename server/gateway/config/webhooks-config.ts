import * as z from 'zod';
import { webhook } from '../../../agent/listening/webhook.ts';
import { STATUS_TOPICS, type WebhookTopic } from '../../../agent/listening/webhook-notice.ts';
import { messageOf } from '../../../protocol/error.ts';
import { listRunEventTypes } from '../../../protocol/event.ts';
import { fields } from '../../fields.ts';

const topic = z.enum([...STATUS_TOPICS, ...listRunEventTypes()] as WebhookTopic[]);

/** `webhooks` of the configuration: the receivers of messages about the runs of the store, by name. */
export const webhooksConfig = z.record(
  z.string().min(1).max(64),
  fields({
    url: z.string().min(1).meta({ description: 'Where messages are posted: an http or https URL.' }),
    secret: z
      .string()
      .regex(/^\$\{[A-Za-z_]\w*\}$/, 'expected a variable of the environment, as "$" and its name in braces')
      .meta({
        description: 'Signs the messages: a variable of the environment, as "$" and its name in braces.',
      }),
    on: z._default(
      z
        .array(topic)
        .min(1)
        .meta({ description: 'What the webhook reports: the status of runs, or types of events.' }),
      ['waiting'],
    ),
  }),
);
export type WebhooksConfig = z.output<typeof webhooksConfig>;

/** The shortest secret, in characters. */
const SHORTEST_SECRET = 16;

/** What is wrong with a webhook once its variables are filled in; never shows a value. */
export function checkWebhook(
  config: WebhooksConfig[string],
): { field: 'secret' | 'url'; message: string } | null {
  if (config.secret.length < SHORTEST_SECRET)
    return { field: 'secret', message: `expected a secret of at least ${SHORTEST_SECRET} characters` };
  try {
    webhook(config);
    return null;
  } catch (error) {
    const message = messageOf(error);
    return { field: message.includes('secret') ? 'secret' : 'url', message };
  }
}
