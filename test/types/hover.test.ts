import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openEditor } from '../support/types/hovers.ts';

/** An agent of two tools, whose types are in the hover texts. */
const FILE = new URL('../support/types/hovered.ts', import.meta.url);

let editor: Awaited<ReturnType<typeof openEditor>>;
beforeAll(async () => {
  editor = await openEditor(FILE);
});
afterAll(() => editor.close());

describe('an editor shows', () => {
  test.each([
    ['const run', 15],
    ['const settled', 15],
    ['const agent', 17],
    ['settled.output', 3],
    ['settled.results', 11],
    ['settled.approvals', 11],
    ['run.approve', 14],
    ['run.answer', 1],
    ['run.settled', 15],
    ['agent.start', 21],
    ['= tool', 18],
    ['= createAgent', 46],
  ])('no conditional type for %s, and at most %i lines, most of them of the tools', async (place, most) => {
    const shown = await editor.hover(place);
    expect(shown).toContain(place.split(/\W/).at(-1));
    expect(shown).not.toMatch(/\b(?:extends|infer|keyof|never)\b/);
    expect(shown.split('\n').length, shown).toBeLessThanOrEqual(most);
  });

  test('the type of the answer', async () => {
    expect(await editor.hover('settled.output')).toMatch(
      / output\?: \{\n\s*total: number;\n\} \| undefined$/,
    );
  });

  test('the inputs of the calls that wait for approval, by tool', async () => {
    const shown = await editor.hover('settled.approvals');
    expect(shown).toMatch(/\.approvals: \(OpenCall<"lookup", \{\s*orderId: string;\s*\}, /);
    expect(shown).toMatch(/\| OpenCall<"refund", \{\s*orderId: string;\s*cents: number;\s*\}, /);
  });
});
