/** Writes docs/gateway-config.schema.json, the schema of `serve --config`: part of `npm run docs`. */
import { writeFileSync } from 'node:fs';
import { describeGatewayConfig } from '../../../server/gateway/config/gateway-config.ts';

const file = new URL('../../../docs/gateway-config.schema.json', import.meta.url);
writeFileSync(file, `${JSON.stringify(describeGatewayConfig(), null, 2)}\n`);
