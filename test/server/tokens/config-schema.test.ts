import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { describeGatewayConfig } from '../../../server/gateway/config/gateway-config.ts';

test('docs/gateway-config.schema.json is the schema of the configuration (npm run docs writes it)', () => {
  const published = JSON.parse(readFileSync('docs/gateway-config.schema.json', 'utf8'));
  expect(published).toEqual(describeGatewayConfig());
  expect(Object.keys(published.properties)).toEqual(
    expect.arrayContaining(['$schema', 'models', 'mcp_servers', 'tokens', 'limits', 'cors', 'prices']),
  );
});
