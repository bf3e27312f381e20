import {
  errorFromResponse,
  HttpFailure,
  type ProviderContext,
} from '../../../../adapters/http/provider-errors.ts';
import type { ProviderError } from '../../../../protocol/error.ts';
import type { JsonValue } from '../../../../protocol/json.ts';

/** A provider whose error responses are mapped. */

export const NOW = Date.parse('2026-01-01T00:00:00Z');
export const SECRET = 'invalid-key';
export const context: ProviderContext = {
  provider: 'openai-responses',
  model: 'gpt-5',
  keyVariable: 'OPENAI_API_KEY',
  baseURLVariable: 'OPENAI_BASE_URL',
  baseURL: 'https://user:password@example.test/v1',
  secrets: [SECRET],
};

export function fromHttp(
  status: number,
  body: JsonValue,
  headers: Record<string, string> = {},
): ProviderError {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return errorFromResponse(new HttpFailure(status, new Headers(headers), text), context, NOW);
}
