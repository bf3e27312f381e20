import type { ModelAdapter } from '../protocol/adapter.ts';
import { omitUndefined } from '../protocol/json.ts';
import { refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import { CHAT_NAMES, type ChatOptions, chatAdapter } from './chat/adapter.ts';
import type { ChatDialect } from './chat/dialect.ts';
import { endpointOf } from './http/connection.ts';
import type { CallIdForm } from './turn/tool-calls.ts';

/**
 * Creates an adapter for Mistral. Defaults for key and URL: `MISTRAL_API_KEY` and `MISTRAL_BASE_URL`.
 *
 * @example
 * const model = mistral({ model: 'mistral-large-latest' });
 */
export function mistral(options: ChatOptions): ModelAdapter {
  refuseUnknownOptions('mistral', options, CHAT_NAMES);
  return chatAdapter(MISTRAL, options);
}

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';

/** Mistral refuses all other ids, even those that models on this API generate. */
const NINE: CallIdForm = {
  fits: id => /^[A-Za-z0-9]{9}$/.test(id),
  make(digest) {
    let id = '';
    for (let rest = BigInt(`0x${digest}`); id.length < 9; rest /= 62n) id += ALPHABET[Number(rest % 62n)];
    return id;
  },
};

/** Reasoning is part of the content; the effort is `high` or `none`. Usage is sent without asking for it. */
const MISTRAL: ChatDialect = {
  ...endpointOf('mistral', 'https://api.mistral.ai/v1'),
  requiredChoice: 'any',
  callIds: NINE,
  reasoning: 'content',
  effort: effort => ({ reasoning_effort: effort === 'none' || effort === 'minimal' ? 'none' : 'high' }),
  filePart: ({ url, name }) => ({
    type: 'document_url',
    document_url: url,
    ...omitUndefined({ document_name: name }),
  }),
  streamMembers: {},
  strictOrder: true,
};
