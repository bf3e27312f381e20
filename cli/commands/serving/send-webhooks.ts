import { AgentListeners } from '../../../agent/listening/agent-listeners.ts';
import { webhook } from '../../../agent/listening/webhook.ts';
import { systemHost } from '../../../engine/driver/host.ts';
import type { Store } from '../../../protocol/store.ts';
import type { WebhooksConfig } from '../../../server/responses/gateway/webhooks-config.ts';

/**
 * Sends the configured webhooks about all runs of the store, whichever process drives them. Of several servers on a
 * store, one sends each. The store keeps how far each has come.
 */
export function sendWebhooks(store: Store, webhooks: WebhooksConfig = {}): { close(): void } {
  const listeners = new AgentListeners({ name: 'serve', store }, systemHost, () => true);
  for (const config of Object.values(webhooks)) listeners.add(webhook(config));
  return listeners;
}
