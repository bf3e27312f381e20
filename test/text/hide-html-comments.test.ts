import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/agent.ts';
import { ManualHost } from '../../testing/manual-host.ts';
import { hideHtmlComments } from '../../text/hide-html-comments.ts';
import { filterText } from '../../text/text-filter.ts';
import { cutTexts, filterChunks } from '../support/engine/splits.ts';
import { randomCases } from '../support/sample.ts';

/** The specification of the filter, as one expression over the whole text. */
function withoutComments(text: string): string {
  return text.replace(/<!--(?:-?>|[\s\S]*?(?:--!?>|$))/g, '');
}

const texts = cutTexts(
  '<!--',
  '-->',
  '--!>',
  '<!-->',
  '<!--->',
  '<!-- notes -->',
  '<',
  '-',
  '!',
  '>',
  'a b',
  '\n',
);

describe('hideHtmlComments', () => {
  test('removes comments and nothing else, however the text is split', () => {
    fc.assert(
      fc.property(texts, ({ text, chunks }) => {
        expect(filterChunks(hideHtmlComments(), chunks)).toBe(withoutComments(text));
      }),
      { numRuns: randomCases(1000) },
    );
  });

  test('holds back no more than what may start a comment', () => {
    fc.assert(
      fc.property(texts, ({ chunks }) => {
        const filter = hideHtmlComments();
        let received = '';
        let shown = '';
        for (const chunk of chunks) {
          received += chunk;
          shown += filter.push(chunk);
          const readable = withoutComments(received);
          expect(readable.startsWith(shown)).toBe(true);
          expect(['', '<', '<!', '<!-']).toContain(readable.slice(shown.length));
        }
      }),
      { numRuns: randomCases(500) },
    );
  });

  test.each([
    ['the answer <!-- never closed', 'the answer '],
    ['the answer <!-- closed --', 'the answer '],
    ['the answer <!-', 'the answer <!-'],
    ['a<!---->b<!-->c<!--->d<!--x--!>e', 'abcde'],
    ['`<!-- in code -->` too', '`` too'],
    ['a <!-- <!-- one --> end', 'a  end'],
  ])('%j is shown as %j', (text, read) => {
    expect(filterText(text, [hideHtmlComments])).toBe(read);
  });

  test('a megabyte of comment in small pieces takes little work', () => {
    const filter = hideHtmlComments();
    filter.push('<!--');
    for (let piece = 0; piece < 200_000; piece += 1) filter.push('-- > ');
    expect(filter.push('-->done')).toBe('done');
  });

  test.each([true, false])(
    'a reader of a run sees no comments (stream: %j), and the transcript keeps them',
    async stream => {
      const agent = createAgent({
        name: 'a',
        host: new ManualHost(),
        model: scripted([{ text: 'Yes.<!-- I am -- not > sure --> Surely.<!-- it ends he' }]),
        textFilters: [hideHtmlComments],
      });
      const run = await agent.start('Is it so?', { stream });
      let read = '';
      for await (const text of run.text()) read += text;
      expect(read).toBe('Yes. Surely.');
      expect(await run.settled()).toMatchObject({ status: 'finished', text: 'Yes. Surely.' });
      expect(JSON.stringify(run.context.transcript)).toContain('I am -- not > sure');
    },
  );
});
