import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { gatewayConfigSchema } from '../../server/gateway/config/gateway-config.ts';

/** The JSON blocks of a page that are configurations. Log lines are on one line. */
function configsOf(page: string): { page: string; text: string }[] {
  const text = readFileSync(page, 'utf8');
  return [...text.matchAll(/```json\n(\{\n[\s\S]*?)```/g)].map(([, block = '']) => ({ page, text: block }));
}

const configs = ['docs/responses.md', 'docs/server.md', 'docs/cookbook/codex-on-your-models.md'].flatMap(
  configsOf,
);

test('the pages of the gateway have configurations', () => expect(configs).toHaveLength(4));

test.each(configs)('$page: a configuration is valid: $text', ({ text }) => {
  const filled = text.replaceAll(/\$\{(\w+)\}/g, 'the-$1-of-the-environment');
  expect(() => gatewayConfigSchema.parse(JSON.parse(filled))).not.toThrow();
});
