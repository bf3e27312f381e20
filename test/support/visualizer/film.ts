import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Locator, Page } from 'playwright-core';
import sharp from 'sharp';

/** The window of recordings, in CSS px. */
export const SIZE = { width: 1280, height: 800 };

/** One screenshot, as a PNG. */
type Frame = { png: Buffer; durationMs: number };

/** Captures frames of the page, with a pointer that moves to the pressed elements. */
export class Film {
  readonly page: Page;
  readonly frames: Frame[] = [];
  stillAt = 0;
  #at = { x: SIZE.width / 2, y: SIZE.height - 60 };

  constructor(page: Page) {
    this.page = page;
  }

  async take(durationMs: number): Promise<void> {
    const png = await this.page.screenshot({ animations: 'disabled', caret: 'hide' });
    this.frames.push({ png, durationMs });
  }

  /** Marks the latest frame as the still picture. */
  markStill(): void {
    this.stillAt = this.frames.length - 1;
  }

  /** Writes the recording as `NAME.webp`, animated, and the marked frame as `NAME-still.png`, to docs/images. */
  async write(name: string): Promise<void> {
    const delay = this.frames.map(({ durationMs }) => durationMs);
    await sharp(
      this.frames.map(({ png }) => png),
      { join: { animated: true } },
    )
      .webp({ lossless: true, effort: 6, loop: 0, delay })
      .toFile(pathOf(`${name}.webp`));
    const still = this.frames.at(this.stillAt);
    if (still !== undefined) writeFileSync(pathOf(`${name}-still.png`), still.png);
  }

  async press(target: Locator, durationMs: number): Promise<void> {
    const to = await middleOf(target);
    const from = this.#at;
    for (const part of [0.45, 0.85]) {
      await this.#move({ x: from.x + (to.x - from.x) * part, y: from.y + (to.y - from.y) * part });
      await this.take(70);
    }
    await this.#move(to);
    await this.page.mouse.down();
    await this.take(durationMs);
    await this.page.mouse.up();
  }

  async putPointer(near: Locator): Promise<void> {
    const at = await middleOf(near);
    await this.page.evaluate(DRAW_POINTER);
    await this.#move({ x: at.x + 40, y: at.y + 50 });
  }

  async #move({ x, y }: { x: number; y: number }): Promise<void> {
    this.#at = { x, y };
    await this.page.mouse.move(x, y);
    await this.page.evaluate(`movePointer(${x}, ${y})`);
  }
}

const DRAW_POINTER = `{
  const draw = (tag, attributes) => {
    const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };
  const pointer = draw('svg', { viewBox: '0 0 16 24', 'aria-hidden': 'true' });
  pointer.append(draw('path', { d: 'M1 1v18l4.5-4 3 7 3-1.3-3-6.7H15z', fill: '#111', stroke: '#fff', 'stroke-width': 1.6 }));
  Object.assign(pointer.style, { position: 'fixed', width: '26px', zIndex: 9, pointerEvents: 'none' });
  document.body.append(pointer);
  globalThis.movePointer = (x, y) => Object.assign(pointer.style, { left: x + 'px', top: y + 'px' });
}`;

async function middleOf(target: Locator): Promise<{ x: number; y: number }> {
  const box = await target.boundingBox();
  if (box === null) throw new Error('The element to press is not on the page.');
  return { x: Math.round(box.x + box.width / 2), y: Math.round(box.y + box.height / 2) };
}

/** The path of a file in docs/images. */
export function pathOf(file: string): string {
  return fileURLToPath(new URL(`../../../docs/images/${file}`, import.meta.url));
}
