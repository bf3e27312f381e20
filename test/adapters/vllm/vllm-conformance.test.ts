import { rmSync } from 'node:fs';
import { afterAll, describe, test } from 'vitest';
import { adapterChecks, type Exchange } from '../../../adapters/conformance.ts';
import { vllm } from '../../../adapters/vllm.ts';
import {
  CALL_ARGUMENTS,
  SENTENCE,
  THOUGHT,
  WEATHER_REQUEST,
} from '../../support/adapters/fixtures/weather.ts';
import { NOT_FOR_GRPC, startBridge } from '../../support/adapters/grpc-bridge.ts';
import { messagesOf } from '../../support/adapters/grpc-engine.ts';
import { bytesOf, EOS, textOfBytes, writeTokenizerFolder } from '../../support/adapters/tokenizer-folder.ts';

const tokenizer = writeTokenizerFolder();
const bridge = await startBridge(textOfBytes);
afterAll(async () => {
  await bridge[Symbol.asyncDispose]();
  rmSync(tokenizer, { recursive: true });
});

describe('vllm', () => {
  const reply = `<think>\n${THOUGHT}\n</think>\n\n${SENTENCE}\n${CALL_ARGUMENTS.map(
    written => `<tool_call>\n{"name": "weather", "arguments": ${written}}\n</tool_call>`,
  ).join('\n')}`;
  const lines = (size: number) =>
    messagesOf([...bytesOf(reply), EOS], { size })
      .map(message => `${JSON.stringify(message)}\n`)
      .join('');
  const comesBack = [THOUGHT.trim()];
  const exchanges: Exchange[] = [
    {
      name: 'calls',
      streamed: false,
      request: WEATHER_REQUEST,
      comesBack,
      response: lines(1_000),
      expect: { text: SENTENCE, reasoning: THOUGHT.trim(), finishReason: 'tool_calls' },
    },
    {
      name: 'streamed calls',
      streamed: true,
      request: WEATHER_REQUEST,
      comesBack,
      response: lines(20),
      sameTurnAs: 'calls',
    },
  ];
  const open = bridge.opener(options => vllm({ model: 'model-1', tokenizer, ...options }));
  for (const check of adapterChecks({ open, exchanges, except: NOT_FOR_GRPC })) test(check.name, check.run);
});
