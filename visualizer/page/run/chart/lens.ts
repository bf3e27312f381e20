type Point = { x: number; y: number };
/** What two fingers or one pointer hold: their middle in px of the screen, and how far apart they are. */
type Grip = Point & { apart: number };

const MOST = 8;
const STEP_PX = 60;
const DRAG_PX = 4;

/**
 * What is seen of a drawing: its `viewBox`. Dragging, two fingers, the wheel and keys change it.
 *
 * L1 The place below a pointer or between two fingers stays there.
 * L2 The middle of the box is always within the drawing, which is never smaller than what fits.
 */
export class Lens {
  readonly #box: HTMLElement;
  readonly #drawing: SVGSVGElement;
  readonly #size: { width: number; height: number };
  readonly #held = new Map<number, Point>();
  #moved = 0;
  /** The middle in units of the drawing, and how much larger it is than what fits. */
  #seen: Point & { scale: number };

  constructor(box: HTMLElement, drawing: SVGSVGElement) {
    const { width, height } = drawing.viewBox.baseVal;
    this.#box = box;
    this.#drawing = drawing;
    this.#size = { width, height };
    this.#seen = { x: width / 2, y: height / 2, scale: 1 };
  }

  fit(): void {
    this.#look({ x: this.#size.width / 2, y: this.#size.height / 2, scale: 1 });
  }

  /** As large as it is readable and fits the width, with a place in the middle. */
  readAt(y: number): void {
    const { width, height } = this.#size;
    const pxPerUnit = Math.min(1.2, this.#box.clientWidth / width);
    const half = this.#box.clientHeight / pxPerUnit / 2;
    const middle = Math.max(half, Math.min(height - half, y));
    this.#look({ x: width / 2, y: middle, scale: pxPerUnit / this.#fitting() });
  }

  zoom(by: number, at: Point = this.#middle()): void {
    this.#change({ ...at, apart: 1 }, { ...at, apart: by });
  }

  pan(x: number, y: number): void {
    this.#change({ x, y, apart: 1 }, { x: 0, y: 0, apart: 1 });
  }

  readonly press = (event: PointerEvent): void => {
    if (this.#held.size === 0) this.#moved = 0;
    this.#held.set(event.pointerId, { x: event.clientX, y: event.clientY });
  };

  readonly drag = (event: PointerEvent): void => {
    if (!this.#held.has(event.pointerId)) return;
    const before = this.#grip();
    this.#held.set(event.pointerId, { x: event.clientX, y: event.clientY });
    const after = this.#grip();
    this.#moved += Math.hypot(after.x - before.x, after.y - before.y) + Math.abs(after.apart - before.apart);
    // A press that does not move is a click on a state.
    if (this.#moved > DRAG_PX) this.#box.setPointerCapture(event.pointerId);
    this.#change(before, after);
  };

  readonly release = (event: PointerEvent): void => {
    this.#held.delete(event.pointerId);
  };

  readonly wheel = (event: WheelEvent): void => {
    event.preventDefault();
    const lines = event.deltaMode === WheelEvent.DOM_DELTA_PIXEL ? 1 : 16;
    this.zoom(Math.exp(-event.deltaY * lines * 0.002), { x: event.clientX, y: event.clientY });
  };

  readonly key = (event: KeyboardEvent): void => {
    const act = this.#keys[event.key];
    if (act === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  };

  readonly #keys: Readonly<Record<string, () => void>> = {
    ArrowLeft: () => this.pan(-STEP_PX, 0),
    ArrowRight: () => this.pan(STEP_PX, 0),
    ArrowUp: () => this.pan(0, -STEP_PX),
    ArrowDown: () => this.pan(0, STEP_PX),
    '+': () => this.zoom(1.25),
    '=': () => this.zoom(1.25),
    '-': () => this.zoom(0.8),
    '0': () => this.fit(),
  };

  #grip(): Grip {
    const [one = { x: 0, y: 0 }, other = one] = [...this.#held.values()];
    const apart = Math.hypot(one.x - other.x, one.y - other.y) || 1;
    return { x: (one.x + other.x) / 2, y: (one.y + other.y) / 2, apart };
  }

  #middle(): Point {
    const { left, top, width, height } = this.#box.getBoundingClientRect();
    return { x: left + width / 2, y: top + height / 2 };
  }

  /** The px of a unit of the drawing when all of it fits. */
  #fitting(): number {
    const { clientWidth, clientHeight } = this.#box;
    return Math.min(clientWidth / this.#size.width, clientHeight / this.#size.height) || 1;
  }

  #change(before: Grip, after: Grip): void {
    const { x, y, scale } = this.#seen;
    const middle = this.#middle();
    const next = Math.max(1, Math.min(MOST, (scale * after.apart) / before.apart));
    const [was, is] = [scale * this.#fitting(), next * this.#fitting()];
    this.#look({
      x: x + (before.x - middle.x) / was - (after.x - middle.x) / is,
      y: y + (before.y - middle.y) / was - (after.y - middle.y) / is,
      scale: next,
    });
  }

  #look({ x, y, scale }: Point & { scale: number }): void {
    const { width, height } = this.#size;
    const [w, h] = [width / scale, height / scale];
    this.#seen = { x: Math.max(0, Math.min(width, x)), y: Math.max(0, Math.min(height, y)), scale };
    this.#drawing.setAttribute('viewBox', `${this.#seen.x - w / 2} ${this.#seen.y - h / 2} ${w} ${h}`);
  }
}
