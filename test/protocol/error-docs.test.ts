import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent, EngineError, ProviderError, tool } from '../../agent/index.ts';
import { docsOf } from '../../protocol/error.ts';
import { describeError } from '../../server/error-envelope.ts';
import { describeResponsesError } from '../../server/openai-error.ts';
import { memory } from '../../stores/memory.ts';

const refused = new EngineError('run-ended', 'The run has ended.');
const failed = new ProviderError('No.', { code: 'quota', provider: 'any', model: 'any' });

describe('where a code is explained', () => {
  test('is beside the message of every coded error, as a command without a site', () => {
    expect(Object.entries(refused)).toContainEqual(['docs', 'agentchart docs run-ended']);
    expect(Object.entries(failed)).toContainEqual(['docs', 'agentchart docs quota']);
  });

  test('is an address with a site', () => {
    expect(docsOf('run-ended', 'https://docs.example/a')).toBe(
      'https://docs.example/a/errors/run-ended.html',
    );
  });

  test('is printed by Node with an error that nobody catches', () => {
    const entry = fileURLToPath(new URL('../../protocol/error.ts', import.meta.url));
    const program = `import { EngineError } from ${JSON.stringify(entry)}; throw new EngineError('run-ended', 'It has ended.');`;
    const { stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
      encoding: 'utf8',
    });
    expect(stderr).toMatch(/EngineError: It has ended\.[\s\S]+docs: 'agentchart docs run-ended'/);
  });

  test('is in no answer of a server', () => {
    const answers = [refused, failed].flatMap(error => [describeError(error), describeResponsesError(error)]);
    expect(JSON.stringify(answers)).toContain('run-ended');
    expect(JSON.stringify(answers)).not.toContain('docs');
  });

  test('is in no journal, and not in what models read', async () => {
    const store = memory();
    const read: string[] = [];
    const pay = tool({
      name: 'pay',
      description: 'Pays.',
      input: z.object({}),
      run: () => {
        throw refused;
      },
    });
    const script = scripted([{ toolCalls: [{ name: 'pay' }] }, { error: { code: 'quota' } }]);
    const model: typeof script = {
      ...script,
      stream(request, options) {
        read.push(JSON.stringify(request));
        return script.stream(request, options);
      },
    };
    const run = await createAgent({ name: 'desk', store, model, tools: [pay] }).start('Pay.');
    expect(await run.settled()).toMatchObject({ status: 'failed', error: { code: 'quota' } });
    expect(read.at(-1)).toContain('The run has ended.');
    expect(read.join()).not.toContain('docs');
    expect(JSON.stringify([await store.read(run.id), await run.settled()])).not.toContain('agentchart docs');
  });
});
