const HEIGHT = 32;
const STEP = 10;

/** Values over time as bars, the largest of them as high as the picture. A table beside it says the same. */
export function Bars({ values }: { values: readonly number[] }) {
  const most = Math.max(...values, Number.MIN_VALUE);
  return (
    <svg
      class="bars"
      viewBox={`0 0 ${values.length * STEP} ${HEIGHT}`}
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      {values.map((value, place) => {
        const height = value === 0 ? 1 : Math.max(2, (HEIGHT * value) / most);
        return (
          <rect
            key={place}
            class={value === 0 ? 'none' : ''}
            x={place * STEP + 1}
            y={HEIGHT - height}
            width={STEP - 2}
            height={height}
          />
        );
      })}
    </svg>
  );
}
