import { afterAll, describe, test } from 'vitest';
import { adapterChecks, type Exchange } from '../../../adapters/conformance.ts';
import { harmony } from '../../../adapters/harmony.ts';
import { harmonyReply } from '../../../examples/stand-in/wire/harmony.ts';
import { harmonyContentOf, WEATHER_TURN } from '../../support/adapters/fixtures/harmony.ts';
import { SENTENCE, THOUGHT, WEATHER_REQUEST } from '../../support/adapters/fixtures/weather.ts';
import { NOT_FOR_GRPC, startBridge } from '../../support/adapters/grpc-bridge.ts';
import { messagesOf } from '../../support/adapters/grpc-engine.ts';
import { idsOf, textOfIds } from '../../support/adapters/harmony/ids.ts';

const bridge = await startBridge(textOfIds);
afterAll(() => bridge[Symbol.asyncDispose]());

const lines = (size: number) =>
  messagesOf(idsOf(`${harmonyReply(WEATHER_TURN)}<|call|>`), { size })
    .map(message => `${JSON.stringify(message)}\n`)
    .join('');
const exchanges: Exchange[] = [
  {
    name: 'calls',
    streamed: false,
    request: WEATHER_REQUEST,
    comesBack: [THOUGHT],
    response: lines(1_000),
    expect: { text: SENTENCE, reasoning: THOUGHT, finishReason: 'tool_calls' },
  },
  {
    name: 'streamed calls',
    streamed: true,
    request: WEATHER_REQUEST,
    comesBack: [THOUGHT],
    response: lines(4),
    sameTurnAs: 'calls',
  },
];

describe('harmony over gRPC', () => {
  const open = bridge.opener(options => harmony({ model: 'model-1', today: '2026-01-01', ...options }));
  const subject = { open, exchanges, contentOf: harmonyContentOf, except: NOT_FOR_GRPC };
  for (const check of adapterChecks(subject)) test(check.name, check.run);
});
