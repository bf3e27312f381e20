import { describe, expect, test } from 'vitest';
import { content } from '../../../protocol/content/content.ts';
import type { Part } from '../../../protocol/item.ts';
import { boundContent } from '../../../text/bound-content.ts';
import { utf8Length } from '../../../text/cut-text.ts';
import { makeTool } from '../../support/engine/agents.ts';
import { callOnce } from '../../support/engine/call-once.ts';
import { makeAgent, runToEnd } from '../../support/engine/large-results.ts';

const image = (bytes: number): Part => ({
  type: 'image',
  url: `data:image/png;base64,${'A'.repeat(bytes)}`,
});

describe('content', () => {
  test('is journaled as JSON, with bytes as data URLs', async () => {
    const png = new Uint8Array(40_000).fill(255);
    const { result } = await callOnce(
      makeTool('look', {
        run: () =>
          content(['Here:', { type: 'image', data: png, mediaType: 'image/png' }], { data: { width: 3 } }),
      }),
    );
    expect(result?.output).toEqual({
      type: 'content',
      parts: [
        { type: 'text', text: 'Here:' },
        { type: 'image', url: `data:image/png;base64,${Buffer.from(png).toString('base64')}` },
      ],
      data: { width: 3 },
    });
  });

  test.each([
    [
      'a path',
      { type: 'image', url: './dot.png' },
      'expected `url` to be an https:, http:, gs: or data: URL',
    ],
    ['base64 as data', { type: 'image', data: 'AAAA', mediaType: 'image/png' }, 'pass `url: "data:image/png'],
    ['bytes without a type', { type: 'file', data: new Uint8Array() }, '`mediaType` a type such as'],
    ['another part', { type: 'video' }, 'parts[0]: expected a text, or a part of type'],
    ['nothing', undefined, 'got undefined'],
  ])('of %s is refused with what to pass', (_, part, message) => {
    expect(() => content([part as Part])).toThrow(message);
  });

  test('longer than what models read of a text reaches the model uncut', async () => {
    const { settled, requests } = await run(content(['Here:', image(300_000)]));
    expect(settled.status).toBe('finished');
    const read = requests[1]?.transcript.find(item => item.type === 'tool_result');
    expect(read).toEqual(expect.objectContaining({ output: content(['Here:', image(300_000)]) }));
    expect(read).not.toHaveProperty('shown');
  });

  test('with a long text has its text cut for the model, and keeps its images', async () => {
    const { requests } = await run(content(['x'.repeat(200_000), image(1_000)]));
    const read = requests[1]?.transcript.find(item => item.type === 'tool_result');
    expect(read?.shown).toMatch(/^x+\n\[\d+ of 200000 bytes were left out here/);
    expect(read?.output).toMatchObject({ parts: [{}, { type: 'image' }] });
  });

  test('with an image larger than the limit keeps a note, and the store has the image', async () => {
    const output = content(['Here:', image(5_000), image(200)], { data: { width: 3 } });
    const { run: made, settled, requests } = await run(output, { maxResultBytes: 1_000 });
    const read = requests[1]?.transcript.find(item => item.type === 'tool_result');
    expect(read?.output).toEqual({
      type: 'content',
      parts: [
        { type: 'text', text: 'Here:' },
        {
          type: 'text',
          text: '[The tool returned a part that is too large to show: image/png image, 4 KiB.]',
        },
        image(200),
      ],
    });
    expect(settled).toMatchObject({ results: [{ blob: { bytes: expect.any(Number) } }] });
    expect(await made.output('call_0_0')).toEqual(output);
  });

  test("of a person's answer is bounded like that of a tool", async () => {
    const gated = makeTool('dump', { maxResultBytes: 1_000, approval: true });
    const { agent, host, requests } = makeAgent({ tools: [gated] });
    const made = await agent.start('go', { runId: 'r' });
    await host.settle(made.settled());
    await made.answer('call_0_0', { output: content([image(5_000)]) });
    await host.settle(made.settled());
    const read = requests[1]?.transcript.find(item => item.type === 'tool_result');
    expect(JSON.stringify(read?.output)).toMatch(/too large to show: image\/png image, 4 KiB/);
  });
});

async function run(output: unknown, { maxResultBytes = 1_000_000 } = {}) {
  return await runToEnd({ tools: [makeTool('dump', { maxResultBytes, run: () => output })] });
}

test.each([10, 60, 100, 200, 400, 1_000, 5_000, 20_000])(
  'content fits into %d bytes, and no image is cut',
  limit => {
    const parts = ['é"\n'.repeat(50), image(300), 'b'.repeat(2_000), image(3_000), image(50)];
    const bound = boundContent(content(parts), limit);
    const text = typeof bound === 'string' ? bound : JSON.stringify(bound);
    expect(utf8Length(text)).toBeLessThanOrEqual(Math.max(limit, 90));
    for (const [, data = ''] of text.matchAll(/base64,(A*)/g))
      expect([300, 3_000, 50]).toContain(data.length);
  },
);
